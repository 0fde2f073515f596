"""Notification decisions about an incident, grouped by target; equal decisions in a row are one entry. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import msgspec

MAX_UNFOLDED: Final = 8
"""At most this many rows are one table; above that, each target has its own folded table."""


class Decisions(msgspec.Struct, frozen=True):
    """Equal consecutive decisions about one target, from the first to the last.

    `target` is empty when no route matched.
    """

    target: str
    kind: str
    outcome: str
    reason: str
    count: int
    first_ns: int
    last_ns: int


class TargetDecisions(msgspec.Struct, frozen=True):
    """All decisions about one target, oldest first."""

    decisions: tuple[Decisions, ...]

    @property
    def newest(self) -> Decisions:
        """The most recent decision."""
        return self.decisions[-1]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """The number of decisions by outcome, most frequent first."""
        counted: Counter[str] = Counter()
        for decision in self.decisions:
            counted[decision.outcome] += decision.count
        return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def decisions_by_target(deliveries: Sequence[Mapping[str, Any]]) -> list[TargetDecisions]:
    """One entry per target, sorted by its name; `deliveries` are oldest first."""
    by_target = sorted(deliveries, key=_target)
    return [TargetDecisions(_folded(list(decisions))) for _, decisions in groupby(by_target, _target)]


def in_time_order(targets: Sequence[TargetDecisions]) -> list[Decisions]:
    """The decisions of all targets, oldest first."""
    decisions = (decision for target in targets for decision in target.decisions)
    return sorted(decisions, key=lambda decision: (decision.first_ns, decision.target))


def _target(delivery: Mapping[str, Any]) -> str:
    return str(delivery["target"])


def _folded(deliveries: Sequence[Mapping[str, Any]]) -> tuple[Decisions, ...]:
    runs = [list(run) for _, run in groupby(deliveries, itemgetter("kind", "outcome", "reason"))]
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
