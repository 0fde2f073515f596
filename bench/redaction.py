"""How many made-up credentials are redacted in log lines, and how much other text is: `python -m bench.redaction`.

First lines by the author of the patterns, then lines by authors who had not seen them. Exit code 1 when a secret of the
former stays, when an example of a rule is changed, or when the figures of another author are worse than their bounds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple, Protocol

from bench import redaction_author_a, redaction_author_b, redaction_author_c
from bench.redaction_shapes import Shape, shapes
from epicenter.rules.packs.load import load
from epicenter.rules.redact.load import load_redactor
from epicenter.rules.redact.redactor import Redactor

SEED: Final = 2026
OTHER_SEEDS: Final = range(100)
MIN_LEFT_LENGTH: Final = 6
"""A piece of a secret as long as this counts as the secret."""

MIN_RECALL: Final = 0.97
"""Of another author's secrets, at least this share is removed."""

MAX_TOUCHED: Final = 0.01
"""Of another author's harmless lines, at most this share is changed."""


class Author(Protocol):
    """A module with lines by one author."""

    def secrets(self, rng: Random, /) -> list[Shape]:
        """Lines, each with one secret."""

    def harmless(self, rng: Random, /) -> list[tuple[str, str]]:
        """(kind, line) of lines without any secret."""


AUTHORS: Final[dict[str, Author]] = {
    "author A": redaction_author_a,
    "author B": redaction_author_b,
    "author C": redaction_author_c,
}

_MARK: Final = re.compile(r"\[redacted:[a-z0-9-]+\]")


@dataclass(frozen=True)
class Recall:
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


class OfAuthor(NamedTuple):
    """What is left of an author's secrets, and the harmless lines (kind, line) that change."""

    recall: Recall
    harmless: int
    touched: list[tuple[str, str]]

    @property
    def is_within_bounds(self) -> bool:
        """Whether enough secrets are removed and few enough harmless lines are changed."""
        removed = self.recall.count - len(self.recall.left)
        return removed >= MIN_RECALL * self.recall.count and len(self.touched) <= MAX_TOUCHED * self.harmless


def result_of(redactor: Redactor, author: Author, seed: int = SEED) -> OfAuthor:
    """The result for an author's lines."""
    harmless = author.harmless(Random(seed))
    touched = [(kind, line) for kind, line in harmless if redactor.redact(line.encode()).kinds]
    return OfAuthor(recall_of(redactor, author.secrets(Random(seed))), len(harmless), touched)


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
    others = [_print_author(redactor, name, author) for name, author in AUTHORS.items()]
    return 1 if fixed.left or changed or not all(others) else 0


def _print_author(redactor: Redactor, name: str, author: Author) -> bool:
    """Print the figures and the misses; whether they are within the bounds."""
    result = result_of(redactor, author)
    count, left = result.recall.count, result.recall.left
    print(f"{name}: {count - len(left)} of {count} secrets removed ({1 - len(left) / count:.1%});", end=" ")
    print(f"{len(result.touched)} of {result.harmless} harmless lines touched")
    for shape in left:
        print(f"left      {shape.kind}: {shape.line!r}")
    for kind, line in result.touched:
        print(f"touched   {kind}: {line!r} -> {redactor.redact(line.encode()).text.decode()!r}")
    return result.is_within_bounds


if __name__ == "__main__":
    sys.exit(main())
