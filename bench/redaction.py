"""How many made-up credentials are redacted in log lines, and how much other text is: `python -m bench.redaction`.

Exit code 1 when a secret stays, or a line without one is changed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from bench.redaction_shapes import Shape, shapes
from epicenter.rules.packs.load import load
from epicenter.rules.redact.load import load_redactor
from epicenter.rules.redact.redactor import Redactor

SEED: Final = 2026
OTHER_SEEDS: Final = range(100)
MIN_LEFT_LENGTH: Final = 6
"""A piece of a secret as long as this counts as the secret."""

_MARK: Final = re.compile(r"\[redacted:[a-z0-9-]+\]")


class Recall(NamedTuple):
    """`left` still show a piece of the secret; `too_much` lost more than the secret."""

    count: int
    left: list[Shape]
    too_much: list[Shape]


def recall_of(redactor: Redactor, found: Sequence[Shape]) -> Recall:
    """The result for these lines."""
    left, too_much = [], []
    for shape in found:
        text = redactor.redact(shape.line.encode()).text.decode()
        before, after = shape.line.split(shape.secret, 1)
        shown = _MARK.sub("\n", text)
        if any(piece in shown and piece not in before + after for piece in _pieces(shape.secret)):
            left.append(shape)
        elif not (text.startswith(before) and text.endswith(after)):
            too_much.append(shape)
    return Recall(len(found), left, too_much)


def changed_examples(redactor: Redactor) -> tuple[int, list[str]]:
    """How many examples the rules have, and those that change."""
    lines = [
        line
        for rule in load().all_rules
        if rule.spec.examples
        for line in (*rule.spec.examples.matches, *rule.spec.examples.near_misses)
    ]
    return len(lines), [line for line in lines if redactor.redact(line.encode()).kinds]


def _pieces(secret: str) -> Iterator[str]:
    if "PRIVATE KEY" in secret:
        secret = max(secret.replace("\\n", "\n").split("\n"), key=len)
    for start in range(max(1, len(secret) - MIN_LEFT_LENGTH + 1)):
        piece = secret[start : start + MIN_LEFT_LENGTH]
        if not piece.isspace():
            yield piece


def main() -> int:
    """Print the figures and the misses."""
    redactor = load_redactor()
    fixed = recall_of(redactor, shapes(SEED))
    many = recall_of(redactor, [shape for seed in OTHER_SEEDS for shape in shapes(seed)])
    examples, changed = changed_examples(redactor)
    for name, recall in (("200 shapes", fixed), (f"{many.count} shapes of {len(OTHER_SEEDS)} other seeds", many)):
        redacted = recall.count - len(recall.left)
        lost = len(recall.too_much)
        print(f"{name}: {redacted} of {recall.count} secrets redacted; {lost} lines lost more than the secret")
    print(f"{examples} examples of the rules: {len(changed)} changed")
    for shape in {(shape.kind, shape.line): shape for shape in (*fixed.left, *many.left)}.values():
        print(f"left      {shape.kind}: {shape.line!r}")
    for shape in (*fixed.too_much, *many.too_much[:20]):
        print(f"too much  {shape.kind}: {shape.line!r} -> {redactor.redact(shape.line.encode()).text.decode()!r}")
    for line in changed:
        print(f"changed   {line!r}")
    return 1 if fixed.left or changed else 0


if __name__ == "__main__":
    sys.exit(main())
