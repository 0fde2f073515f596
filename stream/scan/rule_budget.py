"""What each rule costs a worker, and which rules are passed over because they take too much of its time.

Pure: the clock comes in from outside. A rule has so many seconds of each interval to look at its candidates
with; when they are used up, the rest of its candidates in that interval is counted and not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from epicenter.rules.packs.load import CATALOG
from epicenter.rules.packs.precedence import LineHit
from epicenter.rules.packs.ruleset import Rule

INTERVAL_S: Final = 5.0
_NEVER: Final = ("harmless", "progress", "placement", "finished", "teardown")
"""Without these, harmless lines would be alarms, and jobs that go on would look dead."""


@dataclass
class Use:
    """What became of a rule's candidates. A record's seconds are shared by the rules that may fit it."""

    budget_s: float
    candidates: int = 0
    hits: int = 0
    seconds: float = 0.0
    passed_over: int = 0

    @property
    def is_used_up(self) -> bool:
        """Whether the rule has had its share of the interval."""
        return self.seconds >= self.budget_s


class RuleBudget:
    """Keeps account of one interval after the other, of all scanners of a worker together."""

    def __init__(
        self, share: float = math.inf, trusted_share: float = math.inf, clock_s: Callable[[], float] = lambda: 0.0
    ):
        self._share = share
        self._trusted_share = trusted_share
        self.clock_s = clock_s
        self._began_s: float | None = None
        self._uses: dict[Rule, Use] = {}
        self._is_over = False

    def let_through(self, patterns: Sequence[int], owners: Sequence[Rule]) -> Sequence[int]:
        """The patterns of a record that are still looked at; the others are counted."""
        if not self._is_over:
            return patterns
        allowed = []
        for number in patterns:
            use = self._uses.get(owners[number])
            if use is None or not use.is_used_up:
                allowed.append(number)
            else:
                use.passed_over += 1
        return allowed

    def record(self, patterns: Sequence[int], owners: Sequence[Rule], hits: Sequence[LineHit], begun_s: float) -> None:
        """A record was looked at for these patterns since then, and this is what stood in it."""
        seconds = self.clock_s() - begun_s
        fitting = [hit.rule.spec.id for hit in hits]
        rules = {owners[number] for number in patterns}
        for rule in rules:
            use = self._uses.get(rule) or self._uses.setdefault(rule, Use(self._budget_s(rule)))
            use.candidates += 1
            use.hits += any(map(rule.is_named, fitting))
            use.seconds += seconds / len(rules)
            self._is_over |= use.is_used_up

    def rotate(self, now_s: float) -> Mapping[Rule, Use] | None:
        """What rules used, when the interval is over: another one begins. None within it."""
        if self._began_s is None:
            self._began_s = now_s
        if now_s - self._began_s < INTERVAL_S:
            return None
        used, self._uses, self._is_over, self._began_s = self._uses, {}, False, now_s
        return used

    def _budget_s(self, rule: Rule) -> float:
        share = self._trusted_share if _is_trusted(rule) else self._share
        return math.inf if share >= 1 or rule.spec.role in _NEVER else share * INTERVAL_S


def over_budget(used: Mapping[Rule, Use]) -> list[str]:
    """The rules that were passed over in an interval, and what to do about each."""
    return [
        f"{rule.place}: {rule.spec.id}: {use.passed_over} lines that it may fit were not held against it in "
        f"{INTERVAL_S:.0f} s, after {use.candidates} took {use.seconds:.1f} s: narrow its patterns, so that only lines "
        "that matter fit them, or raise rule_cpu_share"
        for rule, use in used.items()
        if use.passed_over
    ]


def _is_trusted(rule: Rule) -> bool:
    """Rules that are shipped, and those that tell the worst, are passed over last."""
    specs = [variant.spec for variant in (rule, *rule.finer.values())]
    return rule.place.startswith(f"{CATALOG}/") or any(
        spec.severity == "critical" or spec.role == "root" for spec in specs
    )
