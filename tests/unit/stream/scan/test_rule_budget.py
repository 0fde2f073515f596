"""Rules are skipped once they have used their share of the time, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.rules.packs.load import CATALOG, load
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.stream.scan.rule_budget import INTERVAL_S, RuleBudget, over_budget
from epicenter.stream.scan.scan import BatchScanner, ScanResult
from tests.support.logs import batch, the_rules
from tests.support.packs import A_PACK

COST_S = 0.01
CASCADE = A_PACK.replace("role: root", "role: cascade")


class Clock:
    """A clock that advances by this much whenever it is read."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def __call__(self) -> float:
        self.time_s += COST_S
        return self.time_s


def lines(count: int, text: str = "it went wrong: 1") -> list[bytes]:
    return [f"line {number}: {text}".encode() for number in range(count)]


def rule_budget(share: float = 0.1, trusted: float = 0.9) -> RuleBudget:
    made = RuleBudget(share, trusted, Clock())
    made.rotate(0)
    return made


@pytest.fixture
def own(tmp_path: Path) -> RuleSet:
    (tmp_path / "mine.yaml").write_text(CASCADE)
    return load([tmp_path])


def scanned(rules: RuleSet, limits: RuleBudget, values: list[bytes]) -> ScanResult:
    return BatchScanner(rules, "default", rule_budget=limits).scan(batch(values))


def test_rule_over_budget_is_skipped_named_and_counted(own: RuleSet) -> None:
    limits, tries = rule_budget(), round(0.1 * INTERVAL_S / COST_S)
    found = scanned(own, limits, [*lines(120), b"NVRM: Xid (PCI:0000:9a:00): 79, pid=1, name=python3, GPU lost"])
    assert [match.rule for match in found.matches] == ["mine.one"] * tries + ["nvidia.xid_79"]
    assert (found.records, found.matched, found.quiet) == (121, tries + 1, 120 - tries)
    used = limits.rotate(INTERVAL_S) or {}
    mine, place = used[own.by_id["mine.one"]], own.by_id["mine.one"].place
    assert (mine.candidates, mine.hits, mine.skipped) == (tries, tries, 120 - tries)
    assert mine.seconds == pytest.approx(tries * COST_S)
    (report,) = over_budget(used)
    assert report.startswith(f"{place}: mine.one: {120 - tries} candidate lines were skipped in 5 s")


def test_next_interval_has_a_full_budget(own: RuleSet) -> None:
    limits = rule_budget()
    scanned(own, limits, lines(120))
    assert scanned(own, limits, lines(1)).matched == 0
    assert limits.rotate(INTERVAL_S - 0.01) is None
    assert over_budget(limits.rotate(INTERVAL_S) or {})
    assert scanned(own, limits, lines(1)).matched == 1
    used = limits.rotate(2 * INTERVAL_S)
    assert used is not None
    assert [use.hits for use in used.values()] == [1]
    assert over_budget(used) == []
    assert limits.rotate(3 * INTERVAL_S) == {}


def test_other_rules_of_the_same_line_are_checked(own: RuleSet) -> None:
    limits = rule_budget()
    scanned(own, limits, lines(120))
    both = "it went wrong: 1 NVRM: Xid (PCI:0000:9a:00): 79, pid=1, name=python3, GPU lost"
    assert [match.rule for match in scanned(own, limits, lines(1, both)).matches] == ["nvidia.xid_79"]


@pytest.mark.parametrize(
    ("change", "is_cut"),
    [
        (("", ""), True),
        (("role: cascade", "role: root"), False),
        (("severity: error", "severity: critical"), False),
        (("role: cascade", "role: harmless"), False),
        (("role: cascade", "role: progress"), False),
    ],
    ids=["own", "root", "critical", "harmless", "progress"],
)
def test_trusted_rule_has_a_larger_budget(own: RuleSet, change: tuple[str, str], is_cut: bool) -> None:
    old, new = change
    mine = own.by_id["mine.one"].spec
    name, _, value = new.partition(": ")
    rule = Rule(mine.model_copy(update={name: value} if old else {}), "mine.yaml:3")
    limits, owners = rule_budget(), (rule,)
    while limits.clock_s() < 2:
        limits.record((0,), owners, (), limits.clock_s())
    assert (not limits.within_budget((0,), owners)) == is_cut


def test_shipped_rule_is_trusted_up_to_its_larger_budget() -> None:
    rule = the_rules().by_id["nccl.watchdog_timeout"]
    assert rule.place.startswith(str(CATALOG))
    limits = rule_budget()
    limits.record((0,), (rule,), (), limits.clock_s() - 0.8 * INTERVAL_S)
    assert limits.within_budget((0,), (rule,)) == (0,)
    limits.record((0,), (rule,), (), limits.clock_s() - 0.1 * INTERVAL_S)
    assert limits.within_budget((0,), (rule,)) == []


def test_cost_of_a_line_is_shared_by_its_candidate_rules() -> None:
    first, second = the_rules().rules[:2]
    limits = rule_budget()
    limits.record((0, 1, 2), (first, second, second), (), limits.clock_s() - 1)
    used = limits.rotate(INTERVAL_S) or {}
    assert [use.candidates for use in used.values()] == [1, 1]
    assert used[first].seconds == used[second].seconds == pytest.approx((1 + COST_S) / 2)


@pytest.mark.parametrize("limits", [RuleBudget(), RuleBudget(1, 1, Clock())], ids=["none", "all of the time"])
def test_without_limits_nothing_is_skipped(own: RuleSet, limits: RuleBudget) -> None:
    assert scanned(own, limits, lines(1000)).matched == 1000
