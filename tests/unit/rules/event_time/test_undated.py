"""Lines of a recording without a time get the time at which their job failed."""

from __future__ import annotations

import pytest
from msgspec import structs

from epicenter.rules.detect.signal import signal_of
from epicenter.rules.engine import Engine
from epicenter.rules.event_time.undated import AT_ONCE_NS, Undated, settled
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import END_NS, NS_PER_S, iso_from_ns, order_ns
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, a_step, a_timeout, alive

AT_ONCE_S = AT_ONCE_NS // NS_PER_S
EARLY, LATE = 100, 900


def time_of(error: Match, *others: Match, latest_s: int = LATE) -> int:
    undated = [Undated(error, at(latest_s))]
    (found,), _ = settled(undated, [signal_of(the_rules(), other) for other in others], END_NS)
    return found.event.event_time_ns


def error(job: str = "A") -> Match:
    return a_match("python.traceback", EARLY, "n1", job, has_own_time=False)


def exited(second: int, job: str = "A") -> Match:
    return a_match("slurm.task_exit", second, "n1", job)


@pytest.mark.parametrize(
    ("others", "second"),
    [
        pytest.param([], EARLY, id="nothing-else"),
        pytest.param([exited(500)], 500, id="a-launcher-reports-its-end"),
        pytest.param([exited(500), exited(700)], 500, id="the-first-of-two-runs"),
        pytest.param([a_timeout(1100, "n2", "A", 1)], EARLY, id="reported-after-the-next-line-with-a-time"),
        pytest.param([a_timeout(880, "n2", "A", 1)], 280, id="how-long-another-rank-waited"),
        pytest.param([a_match("nccl.error", 470, "n2", "A"), exited(500)], 470, id="another-rank-before-the-end"),
        pytest.param([a_match("nccl.error", 300, "n2", "A"), exited(500)], 500, id="an-error-long-before-the-end"),
        pytest.param([a_match("nccl.error", 300, "n2", "A")], 300, id="no-launcher"),
        pytest.param([exited(EARLY + AT_ONCE_S), exited(500)], EARLY, id="at-once"),
        pytest.param([exited(EARLY + AT_ONCE_S + 1)], EARLY + AT_ONCE_S + 1, id="not-quite-at-once"),
        pytest.param([exited(LATE + AT_ONCE_S)], LATE, id="soon-after-the-next-line-with-a-time"),
        pytest.param([exited(LATE + AT_ONCE_S + 1)], EARLY, id="not-quite-soon-after-it"),
        pytest.param([exited(500, "B")], EARLY, id="another-job"),
        pytest.param([a_match("slurm.cancelled", 500, "n1", "A")], EARLY, id="only-cancelled"),
    ],
)
def test_an_error_without_a_time_was_written_when_its_job_failed(others: list[Match], second: int) -> None:
    assert time_of(error(), *others) == at(second)


@pytest.mark.parametrize(("attempt", "second"), [pytest.param(0, 500, id="first"), pytest.param(1, 800, id="second")])
def test_an_error_of_torchrun_s_second_attempt_is_after_the_end_of_the_first_on_its_node(
    attempt: int, second: int
) -> None:
    event = structs.replace(error().event, event_time_ns=order_ns(7), log=f"/logs/A/n1/attempt_{attempt}/3/stderr.log")
    undated = structs.replace(error(), event=event)
    elsewhere = a_match("slurm.task_exit", 600, "n2", "A")
    assert time_of(undated, exited(500), elsewhere, exited(800)) == at(second)


def test_an_error_of_a_file_without_any_time_was_written_when_its_job_failed() -> None:
    event = structs.replace(error().event, event_time_ns=order_ns(7))
    undated = structs.replace(error(), event=event)
    assert time_of(undated, exited(EARLY)) == at(EARLY)
    assert time_of(undated) == order_ns(7)


@pytest.mark.parametrize(
    ("others", "latest_ns", "second"),
    [
        pytest.param([], END_NS, 700, id="last-in-its-file"),
        pytest.param([], at(LATE), EARLY, id="before-a-line-with-a-time"),
        pytest.param([exited(500)], END_NS, 500, id="another-failure-has-a-time"),
    ],
)
def test_an_end_without_a_time_has_the_time_when_its_job_ended(
    others: list[Match], latest_ns: int, second: int
) -> None:
    signals = [signal_of(the_rules(), other) for other in others]
    (found,), _ = settled([Undated(error(), latest_ns)], signals, END_NS, lambda match: at(700))
    assert found.event.event_time_ns == at(second)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [pytest.param("ray.worker_died", [490], id="end"), pytest.param("disk.full", [], id="error-that-the-job-survived")],
)
def test_an_end_without_a_time_has_that_of_its_job_s_last_step(rule: str, expected: list[int]) -> None:
    engine = Engine(the_rules())
    match = a_match(rule, EARLY, "n1", "A", has_own_time=False)
    steps = [a_step(number, 10 * number) for number in range(50)]
    engine.add([match], [*steps, alive(800, "A", "n1")], latest_ns_by_match={match.match_id: END_NS})
    found = [incident for incident in engine.flush() if incident.root_cause.rule == rule]
    assert [incident.root_cause.event_time for incident in found] == [iso_from_ns(at(second)) for second in expected]


@pytest.mark.parametrize(
    ("others", "read_until_s", "is_settled"),
    [
        pytest.param([], LATE + AT_ONCE_S, True, id="what-follows-the-next-line-with-a-time-was-read"),
        pytest.param([], LATE + AT_ONCE_S - 1, False, id="before-that"),
        pytest.param([exited(EARLY + 5)], EARLY + AT_ONCE_S, True, id="its-job-failed-at-once"),
        pytest.param([exited(EARLY + 5)], EARLY + AT_ONCE_S - 1, False, id="its-job-may-still-fail-sooner"),
        pytest.param([exited(500)], LATE - 1, False, id="its-job-failed-later"),
    ],
)
def test_a_time_is_settled_once_nothing_can_change_it(others: list[Match], read_until_s: int, is_settled: bool) -> None:
    signals = [signal_of(the_rules(), other) for other in others]
    matches, waiting = settled([Undated(error(), at(LATE))], signals, at(read_until_s))
    assert (len(matches), len(waiting)) == (is_settled, not is_settled)
