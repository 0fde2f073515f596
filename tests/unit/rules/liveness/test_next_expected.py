"""Until when a job may make no step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epicenter.rules.liveness.watch import LivenessWatch
from epicenter.rules.model.heartbeats import Heartbeat
from epicenter.rules.model.ledger import JobEnd
from tests.support.heartbeats import steps
from tests.support.logs import at
from tests.support.signals import alive


def watch_of(*heartbeats: Heartbeat) -> LivenessWatch:
    watch = LivenessWatch()
    for heartbeat in heartbeats:
        watch.process(heartbeat)
    return watch


@pytest.mark.parametrize(
    ("heartbeats", "earliest_s"),
    [
        pytest.param([alive(0, "A", "n1")], 300, id="first-line"),
        pytest.param([alive(0, "A", "n1"), alive(800, "A", "n2")], 1100, id="start-up"),
        pytest.param([*steps(8), alive(2000, "A", "n1")], 2030, id="after-steps"),
    ],
)
def test_a_job_that_writes_may_make_no_step_for_a_while(heartbeats: Sequence[Heartbeat], earliest_s: float) -> None:
    watch = watch_of(*heartbeats)
    assert watch.next_expected_ns("default", "A") >= at(earliest_s)
    assert watch.next_expected_ns("default", "B") == watch.next_expected_ns("other", "A") == 0


def test_a_job_that_trains_and_writes_long_after_its_step_has_half_a_minute() -> None:
    assert watch_of(*steps(8), alive(2000, "A", "n1")).next_expected_ns("default", "A") == at(2030)


def test_a_line_just_after_a_step_does_not_shorten_the_usual_pause() -> None:
    slow = steps(8, pace_s=60)
    usual = watch_of(*slow).next_expected_ns("default", "A")
    assert watch_of(*slow, alive(490, "A", "n1")).next_expected_ns("default", "A") == usual > at(520)


@pytest.mark.parametrize("end", [JobEnd.COMPLETED, JobEnd.FAILED], ids=str)
def test_nothing_is_expected_of_a_job_that_ended(end: JobEnd) -> None:
    watch = watch_of(*steps(8))
    watch.end("default", "A", "n1", end, at(50))
    watch.process(alive(51, "A", "n1"))
    assert watch.next_expected_ns("default", "A") == 0


def test_nothing_is_expected_of_a_stalled_job_although_it_writes() -> None:
    watch = watch_of(*steps(8))
    while watch.next_due_ns:
        if watch.wake():
            break
    watch.process(alive(2000, "A", "n1"))
    assert watch.next_expected_ns("default", "A") == 0


def test_a_job_has_logged_once_one_of_its_nodes_writes() -> None:
    watch = watch_of(alive(0, "A", "n1"))
    assert [watch.has_logged("default", job) for job in ("A", "B", "")] == [True, False, False]
