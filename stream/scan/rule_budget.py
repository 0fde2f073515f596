"""The CPU time that each rule takes, and the rules that are skipped because they exceed their budget.

Pure: the clock is an argument. In each interval a rule has a budget of seconds for checking its candidates. When it is
used up, the remaining candidates of that interval are counted and not checked.
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
"""Never skipped: without these roles harmless lines would raise alarms, and running jobs would look dead."""


@dataclass
class Use:
    """A rule's candidates and their cost. A record's seconds are shared by its candidate rules."""

    budget_s: float
    candidates: int = 0
    hits: int = 0
    seconds: float = 0.0
    skipped: int = 0

    @property
    def is_used_up(self) -> bool:
        """Whether the rule has used its budget of the interval."""
        return self.seconds >= self.budget_s


class RuleBudget:
    """Accounts for the rules of all scanners of a worker, interval by interval."""

    def __init__(
        self, share: float = math.inf, trusted_share: float = math.inf, clock_s: Callable[[], float] = lambda: 0.0
    ):
        self._share = share
        self._trusted_share = trusted_share
        self.clock_s = clock_s
        self._began_s: float | None = None
        self._uses: dict[Rule, Use] = {}
        self._is_over = False

    def within_budget(self, patterns: Sequence[int], owners: Sequence[Rule]) -> Sequence[int]:
        """The patterns of a record that are still within budget; the others are counted as skipped."""
        if not self._is_over:
            return patterns
        allowed = []
        for number in patterns:
            use = self._uses.get(owners[number])
            if use is None or not use.is_used_up:
                allowed.append(number)
            else:
                use.skipped += 1
        return allowed

    def record(self, patterns: Sequence[int], owners: Sequence[Rule], hits: Sequence[LineHit], begun_s: float) -> None:
        """Record the cost of checking a record for these patterns since `begun_s`, and its hits."""
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
        """End the interval if it is over, and return the use of each rule; None before its end."""
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
    """A message for each rule that exceeded its budget: how much was skipped, and what to do."""
    return [
        f"{rule.place}: {rule.spec.id}: {use.skipped} candidate lines were skipped in "
        f"{INTERVAL_S:.0f} s, after {use.candidates} others took {use.seconds:.1f} s: narrow its patterns, "
        "or raise rule_cpu_share"
        for rule, use in used.items()
        if use.skipped
    ]


def _is_trusted(rule: Rule) -> bool:
    """Shipped rules, critical rules and root causes have the larger budget."""
    specs = [variant.spec for variant in (rule, *rule.finer.values())]
    return rule.place.startswith(f"{CATALOG}/") or any(
        spec.severity == "critical" or spec.role == "root" for spec in specs
    )
