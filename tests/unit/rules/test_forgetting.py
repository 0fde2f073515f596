"""What the engine remembers of jobs that come and go has a bound in event time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bench.correlate import LATENESS_NS, Feed
from bench.correlate_day import BATCH_NS, Run
from bench.correlate_input import START_NS, Job, happening
from epicenter.rules.correlate.unattached import UnattachedSignals
from epicenter.rules.engine import Engine
from epicenter.rules.event_time.skew import ClockSkew
from epicenter.rules.liveness import state as liveness_state
from epicenter.rules.model.heartbeats import EXIT, PhaseBegan, Step
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.placement import facts as placement_facts
from epicenter.rules.placement.facts import NodeFacts
from epicenter.rules.placement.placement import ENDED_RETENTION_NS, MAX_RANKS, Placement
from tests.support.logs import at
from tests.support.signals import a_signal
from tests.support.windows import a_window, detectors

HOUR_NS = 3600 * NS_PER_S
JOB_NS = 4 * HOUR_NS
NODES = ("n1", "n2")


def state_after(jobs: int) -> Any:
    """The state once so many jobs ran one after the other on the same nodes, each with a warning and a last line."""
    feed = Feed()
    for number in range(jobs):
        begin_ns = START_NS + number * JOB_NS
        run = Run(Job(f"job{number}", NODES), begin_ns, begin_ns + JOB_NS - HOUR_NS, 0, 30 * NS_PER_S, "", True)
        matches = [*happening("corrected_memory", begin_ns + HOUR_NS, "n1"), *run.end_matches()]
        for piece_ns in range(begin_ns, begin_ns + JOB_NS, BATCH_NS):
            end_ns = piece_ns + BATCH_NS
            of_piece = [match for match in matches if piece_ns <= match.event.event_time_ns < end_ns]
            feed.process(of_piece, list(run.heartbeats(piece_ns, end_ns)), end_ns - LATENESS_NS)
    return msgspec.msgpack.decode(feed.engine.snapshot())


def elements(state: Any) -> int:
    """How many elements all lists and tables within a decoded snapshot have."""
    if not isinstance(state, dict | list):
        return 0
    return len(state) + sum(map(elements, state.values() if isinstance(state, dict) else state))


def test_the_state_of_jobs_that_follow_each_other_stays_the_same_but_for_the_newest_verdicts() -> None:
    after_a_day, after_two = state_after(8), state_after(14)
    for state in (after_a_day, after_two):
        del state["silence"]["verdicts"]
    assert elements(after_two) == elements(after_a_day)


def test_of_a_job_that_ended_long_ago_only_its_end_is_known_unless_an_incident_has_it() -> None:
    placement = Placement()
    for job in ("A", "B"):
        placement.observe("c", "n1", job, at(0))
        placement.facts.record(a_signal("fact", 0, "n1", job, cluster="c", fields={"net": "IB"}), {"net": "network"})
        placement.end("c", job, at(10))
    assert placement.forget_ended(at(10) + ENDED_RETENTION_NS, ()) == []
    assert placement.forget_ended(at(11) + ENDED_RETENTION_NS, {"c/B"}) == ["c/A"]
    assert [placement.nodes_of("c", job, at(20)) for job in "AB"] == [(), ("n1",)]
    assert placement.facts.by_job.keys() == {"c/B"}
    assert all(placement.has_left("c", job, at(8000)) for job in "AB")


def test_unattached_signals_are_forgotten_by_their_time_under_all_their_keys() -> None:
    unattached = UnattachedSignals()
    old, recent = (a_signal("gpu-thermal", second, "n1") for second in (0, 3600))
    for signal in (old, recent):
        unattached.add(signal, ["job/default/A", "node/default/n1"])
    unattached.forget_before(at(3600))
    assert [list(of_key) for of_key in unattached.by_key.values()] == [[recent.signal_id]] * 2
    unattached.forget_before(at(3601))
    assert unattached.by_key == {}


COUNT = {"kind": "count", "at_least": 3}
SPIKE = {"kind": "spike", "field": "x", "samples": 5, "by": "50%"}
RATE = {"kind": "rate", "baseline": 3, "times": 2, "at_least": 3}


def rules_remembered(seconds_later: float, *ended: str, **when: Any) -> list[str]:
    """The rules of the groups that are left so long after the only input, which names job `A`."""
    windows = detectors(a_window(of=["a"], within="1h", group_by=["job"], **when))
    windows.on_signal(a_signal("a", 0, "n1", "A", fields={"x": "1"}))
    windows.forget_old(at(seconds_later), ended)
    return [series.rule for series in windows._state.series.values()]


@pytest.mark.parametrize("when", [COUNT, SPIKE], ids=["counts", "measures"])
def test_a_group_of_a_window_is_forgotten_when_its_next_input_begins_anew(when: dict[str, Any]) -> None:
    assert rules_remembered(7200, **when) == ["test.window"]
    assert rules_remembered(7201, **when) == []


def test_a_group_of_a_window_that_learns_what_is_usual_is_not_forgotten() -> None:
    assert rules_remembered(90_000, **RATE) == ["test.window"]


def test_what_was_measured_of_a_job_is_forgotten_with_it_and_what_is_counted_is_not() -> None:
    assert rules_remembered(1, "default/A", **SPIKE) == []
    assert rules_remembered(1, "default/B", **SPIKE) == ["test.window"]
    assert rules_remembered(1, "default/A", **COUNT) == ["test.window"]


def test_steps_and_banners_of_a_job_are_forgotten_with_it() -> None:
    skew = ClockSkew()
    skew.record_step("c/A", "c/n1", 1, at(0))
    skew.record_banner("c/A", "Init COMPLETE", "c/n1", at(0))
    skew.forget(["c/A", "c/unknown"])
    assert (skew.rounds, skew.banners, skew.starting) == ({}, {}, set())


def test_ranks_and_nodes_without_end_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness_state, "MAX_PLACES", 4)
    engine = Engine(detectors()._rules)
    for number in range(9):
        origin = (at(number), "default", "A", f"n{number}")
        engine.add([], [Step(*origin, number, MAX_RANKS + number), PhaseBegan(*origin, phase=EXIT)])
    engine.advance(at(9))
    (watch,) = engine._state.liveness.jobs.values()
    (places,) = engine._state.lifecycle.correlator.placement.by_job.values()
    assert (len(watch.members), len(watch.exit_ns_by_node), len(places.node_by_reporter)) == (4, 4, 0)


def test_of_what_nodes_print_alike_the_newest_nodes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_facts, "MAX_KEPT_NODES", 2)
    facts = NodeFacts()
    for node in ("n1", "n2", "n1", "n3"):
        facts.record(a_signal("fact", 0, node, "A", fields={"net": "IB"}), {"net": "network"})
    assert list(facts.by_job["default/A"]["network"]) == ["n1", "n3"]
