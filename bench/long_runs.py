"""What the patterns of the rules cost on long runs of one text: `python -m bench.long_runs`, a few minutes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from epicenter.rules.match.bounded import compiled
from epicenter.rules.packs.ruleset import RuleSet
from tests.support.logs import the_rules

SIZE_BYTES: Final = 16_000
SLOW_S: Final = 0.02
FILLINGS: Final = (
    *(b"\x1d", b"\xff", b" ", b"a", b"A", b"0", b"-", b"/", b".", b'"', b"\\", b"(", b"["),
    *(b"a ", b"a.", b"a/", b"a:", b"a=", b"a_", b"x-", b"1 ", b"0x1 ", b": ", b"error ", b"a: error: ", b"[rank0]: "),
)


def patterns_of(rules: RuleSet) -> Iterator[tuple[str, str]]:
    """Each pattern with the id of its rule; those of blocks among them."""
    for rule in rules.rules:
        of_block = rule.spec.block.extract if rule.spec.block else ()
        for pattern in (*rule.spec.patterns, *rule.spec.extract, *rule.spec.unless, *of_block):
            yield pattern, rule.spec.id


def slowest_s(pattern: str) -> float:
    """CPU seconds for the filling on which the pattern takes longest."""
    expression, worst_s = compiled(pattern.encode()), 0.0
    for filling in FILLINGS:
        text = filling * (SIZE_BYTES // len(filling))
        begun_s = time.process_time()
        expression.search(text)
        worst_s = max(worst_s, time.process_time() - begun_s)
    return worst_s


def main() -> None:
    """Print the patterns that take longer than `SLOW_S`, the slowest first."""
    owners = dict(patterns_of(the_rules()))
    timed = sorted(((slowest_s(pattern), pattern) for pattern in owners), reverse=True)
    print(f"{len(timed)} patterns, {len(FILLINGS)} fillings of {SIZE_BYTES} bytes, slowest {timed[0][0]:.2f} s")
    for seconds, pattern in timed:
        if seconds > SLOW_S:
            print(f"{seconds:.2f} s  {owners[pattern]}  {pattern}")


if __name__ == "__main__":
    main()
