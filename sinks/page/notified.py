"""Who was told of an incident and who was not, target by target, so that many decisions stay readable; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

MAX_AT_ONCE: Final = 8
"""So many rows are shown as one table; of more, each target's are folded."""


class Decisions(msgspec.Struct, frozen=True):
    """Decisions on one target that followed each other and were the same, from the first to the last.

    `target` is empty where no route leads anywhere.
    """

    target: str
    kind: str
    outcome: str
    reason: str
    count: int
    first_ns: int
    last_ns: int


class Told(msgspec.Struct, frozen=True):
    """What was decided on one target, oldest first."""

    decisions: tuple[Decisions, ...]

    @property
    def newest(self) -> Decisions:
        """The last of them."""
        return self.decisions[-1]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many of each outcome, the most frequent first."""
        counted: Counter[str] = Counter()
        for one in self.decisions:
            counted[one.outcome] += one.count
        return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def told(deliveries: Sequence[Mapping[str, Any]]) -> list[Told]:
    """Deliveries, oldest first, as one entry a target, in the order of their names."""
    by_target = sorted(deliveries, key=lambda one: str(one["target"]))
    return [Told(_folded(list(some))) for _, some in groupby(by_target, lambda one: str(one["target"]))]


def in_order(all_told: Sequence[Told]) -> list[Decisions]:
    """Those of every target, oldest first."""
    return sorted((one for some in all_told for one in some.decisions), key=lambda one: (one.first_ns, one.target))


def _folded(deliveries: Sequence[Mapping[str, Any]]) -> tuple[Decisions, ...]:
    runs = [list(run) for _, run in groupby(deliveries, lambda one: (one["kind"], one["outcome"], one["reason"]))]
    return tuple(
        Decisions(
            target=run[0]["target"],
            kind=run[0]["kind"],
            outcome=run[0]["outcome"],
            reason=run[0]["reason"],
            count=len(run),
            first_ns=run[0]["decided_ns"],
            last_ns=run[-1]["decided_ns"],
        )
        for run in runs
    )
