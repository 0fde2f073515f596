"""Rules change while an engine runs: rules that stay behave as if the new rule set had been there from the start."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.correlate.lifecycle import RESOLVE_AFTER_NS
from epicenter.rules.engine import Engine
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.ruleset import Rule, RuleSet
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, a_step, a_timeout, an_xid
from tests.support.windows import a_window

UNTIL = 500
STAYS = a_window("stays.window", kind="count", of="nvidia.xid_79", at_least=2, within="90s", group_by="node")
GOES_SILENT = a_window("stays.silence", kind="flat-line", of="step", within="60s", group_by="job")
SECONDS = st.integers(0, 300)


def quiet(rule_id: str, **when: Any) -> Rule:
    """A window whose signals belong to no incident."""
    rule = a_window(rule_id, **when)
    return Rule(rule.spec.model_copy(update={"role": "context"}))


def with_windows(*windows: Rule) -> RuleSet:
    return RuleSet((*the_rules().rules, STAYS, GOES_SILENT, *windows), the_rules().edges)


OLD = with_windows(
    quiet("gone.window", kind="count", of="nccl.watchdog_timeout", at_least=2, within="2m"),
    quiet("other.group", kind="flat-line", of="nvidia.xid_79", within="40s", group_by="node"),
    quiet("other.kind", kind="absence", of="nvidia.xid_79", without="step", within="50s"),
)
NEW = with_windows(
    quiet("new.window", kind="count", of="nccl.watchdog_timeout", at_least=3, within="2m"),
    quiet("other.group", kind="flat-line", of="nvidia.xid_79", within="40s", group_by=["job", "node"]),
    quiet("other.kind", kind="flat-line", of="nvidia.xid_79", within="50s"),
)


def run(seconds: list[int], before: RuleSet, swap_at: int, restarts: bool) -> tuple[list[Incident], list[Signal]]:
    engine, incidents, windowed = Engine(before), list[Incident](), list[Signal]()
    for number, second in enumerate(sorted(seconds)):
        if number == swap_at and restarts:
            engine = Engine(NEW, engine.snapshot())
        elif number == swap_at:
            engine.reload(NEW)
        node = f"n{second % 3}"
        engine.add([an_xid(79, second, node), a_timeout(second, node, "A", second % 3)], [a_step(number, second)])
        incidents += engine.advance(at(second) - 1)
        windowed += engine.windowed()
    incidents += engine.advance(at(UNTIL)) + engine.flush()
    return incidents, [signal for signal in windowed + engine.windowed() if signal.rule.startswith("stays.")]


@given(seconds=st.lists(SECONDS, max_size=12, unique=True), swap_at=st.integers(0, 12), restarts=st.booleans())
def test_unchanged_windows_behave_as_if_the_new_rules_had_always_been_there(
    seconds: list[int], swap_at: int, restarts: bool
) -> None:
    assert run(seconds, OLD, swap_at, restarts) == run(seconds, NEW, swap_at, restarts=False)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_window_with_a_changed_definition_starts_empty(restarts: bool) -> None:
    engine = Engine(OLD)
    engine.add([an_xid(79, 0, "n1", job="A")])
    engine.advance(at(1))
    engine = Engine(NEW, engine.snapshot()) if restarts else engine
    engine.reload(NEW)
    engine.advance(at(UNTIL))
    assert engine.windowed() == []
    engine.add([an_xid(79, UNTIL + 1, "n1", job="A")])
    engine.advance(at(UNTIL + 100))
    assert {signal.rule for signal in engine.windowed()} == {"other.kind", "other.group"}


def test_an_open_incident_survives_the_removal_of_its_rule() -> None:
    engine = Engine(the_rules())
    engine.add([an_xid(79, 0, "n1", job="A")])
    (opened,) = engine.advance(at(10))
    without = tuple(rule for rule in the_rules().rules if rule.spec.id != "nvidia.xid")
    engine.reload(RuleSet(without, the_rules().edges))
    engine.add([an_xid(79, 20, "n1", job="A"), a_match("nccl.remote_error", 25, "n2", "A")])
    (updated,) = engine.advance(at(30))
    assert (updated.incident_id, updated.failure_class, updated.signal_count) == (opened.incident_id, "xid-79", 2)
    assert engine.counts.unknown == 1
    (resolved,) = engine.advance(at(30) + RESOLVE_AFTER_NS)
    assert (resolved.incident_id, resolved.status) == (opened.incident_id, "resolved")
