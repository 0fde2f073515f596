"""The state of each job, as the engine reports it: its phase, how it ended, and its ranks that are not in step."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Alive, Heartbeat, Step, WorldSize
from epicenter.rules.model.ledger import JobEnd, JobPhase, JobState
from tests.support.heartbeats import alive_every, of_all, steps
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, a_step

HOUR_S = 3600


def state(engine: Engine, heartbeats: Iterable[Heartbeat], until_s: float) -> JobState:
    """The newest state of job A."""
    engine.add([], heartbeats)
    engine.advance(at(until_s))
    (newest,) = engine.job_states()
    return newest


def test_a_job_without_a_step_has_no_step_yet(fresh: Engine) -> None:
    banner = WorldSize(at(0), "default", "A", "n1", 4, 0)
    assert state(fresh, [banner], 10).phase is JobPhase.NO_STEP
    assert fresh.job_states() == []


def test_a_job_whose_ranks_advance_together_is_in_step(engine: Engine) -> None:
    found = state(engine, of_all(117), 585)
    assert (found.phase, found.behind, found.quiet, found.verdict) == (JobPhase.IN_STEP, (), (), "")
    assert found.attempt_ns == at(0)


def test_ranks_that_report_late_but_never_two_steps_apart_are_in_step(fresh: Engine) -> None:
    late = [Step(step.event_time_ns + (step.rank or 0) * 10**9, *_place(step)) for step in of_all(117)]
    assert state(fresh, late, 585).phase is JobPhase.IN_STEP


def test_ranks_that_report_every_tenth_step_are_in_step_between_reports(fresh: Engine) -> None:
    reports = [
        Step(at(step * 1.0 + 0.4 * rank), "default", "A", "n1", step, rank)
        for step in range(0, 600, 10)
        for rank in range(4)
    ]
    assert state(fresh, reports, 590.1).behind == ()


def test_a_rank_at_an_earlier_step_is_behind_while_it_advances(fresh: Engine) -> None:
    slow = [step for step in of_all(117) if step.rank != 2]
    slow += [Step(at(5.2 * step), "default", "A", "n2", step, 2) for step in range(112)]
    found = state(fresh, slow, 585)
    assert (found.phase, found.behind) == (JobPhase.BEHIND, (2,))


def test_a_rank_that_stops_reporting_while_the_job_advances_is_quiet(fresh: Engine) -> None:
    only_first = [step for step in of_all(117) if step.rank == 0 or step.step < 4]
    found = state(fresh, only_first, 585)
    assert (found.phase, found.behind, found.quiet) == (JobPhase.IN_STEP, (), (1, 2, 3))


def test_a_hang_without_a_culprit_names_no_rank(engine: Engine) -> None:
    found = state(engine, of_all(117), 720)
    assert (found.phase, found.verdict, found.node, found.rank) == (JobPhase.STALLED, "hung", "", None)
    assert found.since_ns == at(585)
    assert found.text.startswith("no step after step 117")


def test_a_stall_names_the_rank_that_stopped_first(engine: Engine) -> None:
    found = state(engine, [step for step in of_all(117) if (step.rank, step.step) != (2, 117)], 700)
    assert (found.phase, found.verdict, found.node, found.rank) == (JobPhase.STALLED, "rank-dead", "n2", 2)


def test_a_job_that_continues_after_a_stall_is_in_step_again(engine: Engine) -> None:
    assert state(engine, of_all(117), 720).phase is JobPhase.STALLED
    found = state(engine, of_all(118, first=118, start_s=730), 731)
    assert (found.phase, found.verdict, found.text) == (JobPhase.IN_STEP, "", "")


def test_a_job_that_goes_back_to_a_checkpoint_begins_a_new_attempt(engine: Engine) -> None:
    state(engine, of_all(117), 585)
    found = state(engine, of_all(103, first=100, start_s=900), 916)
    assert (found.phase, found.attempt_ns, found.behind) == (JobPhase.IN_STEP, at(900), ())


def test_a_job_of_a_silent_cluster_has_its_logs_missing(engine: Engine) -> None:
    streams = [
        alive
        for number in range(8)
        for source in ("kernel", "worker")
        for alive in alive_every(source, f"n{number}", 0, 585)
    ]
    found = state(engine, [*of_all(117), *streams], 1200)
    assert (found.phase, found.verdict) == (JobPhase.LOGS_MISSING, "shipper-silent")


def test_a_node_without_logs_is_lost_while_the_job_advances(engine: Engine) -> None:
    heartbeats: list[Heartbeat] = [
        heartbeat for node in ("n1", "n2") for heartbeat in alive_every("worker", node, 0, 1200)
    ]
    heartbeats += alive_every("worker", "n3", 0, 600)
    found = state(engine, [*steps(240, node="n1"), *heartbeats], 1200)
    assert (found.phase, found.lost_nodes) == (JobPhase.IN_STEP, ("n3",))


@pytest.mark.parametrize(
    ("rules", "end"),
    [
        (["progress.finished"], JobEnd.COMPLETED),
        (["slurm.cancelled"], JobEnd.CANCELLED),
        (["slurm.preempted"], JobEnd.PREEMPTED),
        (["slurm.time_limit"], JobEnd.TIME_LIMIT),
        (["slurm.step_failed"], JobEnd.FAILED),
        (["signals.sigterm"], JobEnd.TERMINATED),
        (["signals.sigterm", "slurm.step_failed", "slurm.time_limit"], JobEnd.TIME_LIMIT),
        (["progress.finished", "slurm.step_failed"], JobEnd.COMPLETED),
    ],
)
def test_an_ended_job_has_the_end_that_its_lines_report(engine: Engine, rules: list[str], end: JobEnd) -> None:
    engine.add([a_match(rule, 590 + number, "n1", "A") for number, rule in enumerate(rules)], [])
    found = state(engine, of_all(117), 720)
    assert (found.phase, found.end, found.behind) == (JobPhase.ENDED, end, ())
    assert found.text == "the last step was 117"


def test_a_job_that_ended_and_steps_again_has_not_ended(engine: Engine) -> None:
    engine.add([a_match("slurm.cancelled", 590, "n1", "A")], [])
    assert state(engine, of_all(117), 720).phase is JobPhase.ENDED
    found = state(engine, [a_step(118, 900)], 901)
    assert (found.phase, found.end) == (JobPhase.IN_STEP, JobEnd.UNKNOWN)


def test_a_job_without_lines_for_a_day_ended_unreported(engine: Engine) -> None:
    state(engine, of_all(117), 720)
    other = Alive(at(700 + 26 * HOUR_S), "default", "", "n9", source="kernel")
    found = state(engine, [other], 701 + 26 * HOUR_S)
    assert (found.phase, found.end, found.text) == (JobPhase.ENDED, JobEnd.UNREPORTED, "")


def test_a_job_that_never_stepped_and_is_forgotten_is_not_reported_as_ended(fresh: Engine) -> None:
    state(fresh, [WorldSize(at(0), "default", "A", "n1", 1, 0)], 10)
    fresh.add([], [Alive(at(26 * HOUR_S), "default", "", "n9", source="kernel")])
    fresh.advance(at(26 * HOUR_S))
    assert JobPhase.ENDED not in {found.phase for found in fresh.job_states()}


def test_the_state_is_the_same_after_a_snapshot(engine: Engine) -> None:
    engine.add([], of_all(117))
    engine.advance(at(585))
    engine.job_states()
    restored = Engine(the_rules(), engine.snapshot())
    for each in (engine, restored):
        each.advance(at(700))
    assert engine.job_states() == restored.job_states() != []


def _place(step: Step) -> tuple[str, str, str, int, int | None]:
    return step.cluster, step.job, step.node, step.step, step.rank
