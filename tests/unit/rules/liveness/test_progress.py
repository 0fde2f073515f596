"""A job's pace, and when it has stopped."""

from __future__ import annotations

import msgspec
import pytest

from epicenter.rules.liveness.progress import SETTLED_NS, STEPS_TO_SETTLE, JobProgress
from epicenter.rules.model.times import NS_PER_S
from tests.support.logs import at

FLOOR_NS = 900 * NS_PER_S


def after(*steps: tuple[int, float]) -> JobProgress:
    progress = JobProgress(FLOOR_NS)
    for step, second in steps:
        progress.step(step, at(second))
    return progress


def settled(*steps: tuple[int, float]) -> JobProgress:
    """A job that was watched for an hour before."""
    progress = JobProgress(FLOOR_NS, seen_steps=STEPS_TO_SETTLE, seen_ns=SETTLED_NS)
    for step, second in steps:
        progress.step(step, at(second))
    return progress


def every(pace_s: float, count: int, first: int = 0, start_s: float = 0) -> list[tuple[int, float]]:
    return [(first + number, start_s + number * pace_s) for number in range(count)]


def test_learns_its_pace_from_three_steps_on() -> None:
    assert after(*every(5, 3)).pace_ns is None
    assert after(*every(5, 4)).pace_ns == 5 * NS_PER_S


def test_the_pace_is_a_step_s_even_where_steps_are_skipped() -> None:
    assert after((0, 0), (10, 50), (20, 100), (30, 150)).pace_ns == 5 * NS_PER_S


def test_one_long_checkpoint_does_not_change_the_pace() -> None:
    assert after(*every(5, 10), *every(5, 10, first=10, start_s=700)).pace_ns == 5 * NS_PER_S


def test_the_pace_follows_the_newest_steps() -> None:
    assert after(*every(5, 30), *every(9, 30, first=30, start_s=145 + 9)).pace_ns == 9 * NS_PER_S


@pytest.mark.parametrize(
    ("pace_s", "patience_s"),
    [pytest.param(5, 900, id="the-floor-for-fast-steps"), pytest.param(120, 1200, id="ten-paces-for-slow-steps")],
)
def test_has_stopped_after_ten_paces_but_not_before_the_floor(pace_s: int, patience_s: int) -> None:
    assert after(*every(pace_s, 5)).stall_due_ns == at(4 * pace_s + patience_s)


def test_nothing_is_due_before_the_pace_is_known_or_after_the_end() -> None:
    assert after(*every(5, 3)).stall_due_ns is None
    ended, stalled = after(*every(5, 5)), after(*every(5, 5))
    ended.has_ended = stalled.is_stalled = True
    assert ended.stall_due_ns is None
    assert stalled.stall_due_ns is None


def test_a_further_step_ends_a_stall() -> None:
    progress = after(*every(5, 5))
    progress.is_stalled = True
    assert progress.step(5, at(2000))
    assert progress.stall_due_ns == at(2000 + 3 * 1980 / 2)


def test_a_known_cadence_is_trusted_to_three_steps() -> None:
    assert settled(*every(5, 118)).stall_due_ns == at(117 * 5 + 5 + 15)
    assert settled(*every(30, 118)).stall_due_ns == at(117 * 30 + 30 + 90)


def test_a_job_that_has_not_shown_its_pauses_yet_may_pause_for_ten_minutes() -> None:
    assert after(*every(5, 118)).stall_due_ns == at(117 * 5 + 600)
    assert after(*every(5, 725)).stall_due_ns == at(724 * 5 + 20)


def test_a_pause_without_notice_allows_pauses_three_times_as_long() -> None:
    steps = [*every(5, 487), *every(5, 632, first=487, start_s=486 * 5 + 40)]
    assert after(*steps).stall_due_ns == at(steps[-1][1] + 120)


def test_a_pause_reported_only_at_its_end_counts_as_one_without_notice() -> None:
    progress = after(*every(5, 487))
    progress.begin_phase("checkpoint", at(486 * 5 + 39))
    for step, second in every(5, 632, first=487, start_s=486 * 5 + 40):
        progress.step(step, at(second))
    assert progress.stall_due_ns == at(486 * 5 + 40 + 631 * 5 + 120)


def test_bars_after_the_end_are_no_steps() -> None:
    progress = JobProgress(FLOOR_NS)
    assert progress.count(at(0))
    progress.end(is_finished=True)
    assert not progress.count(at(10))


def test_a_gap_three_times_the_longest_is_allowed() -> None:
    steps = [*every(5, 62), *every(5, 56, first=62, start_s=61 * 5 + 30)]
    assert settled(*steps).stall_due_ns == at(steps[-1][1] + 90)


@pytest.mark.parametrize("count", [100, 101], ids=["counted-from-zero", "counted-from-one"])
def test_a_first_pause_is_allowed_after_a_round_step(count: int) -> None:
    assert after(*every(5, count)).stall_due_ns == at((count - 1) * 5 + 600)


def test_a_periodic_pause_may_last_twice_as_long() -> None:
    steps = [*every(5, 101), *every(5, 100, first=101, start_s=100 * 5 + 400)]
    progress = after(*steps)
    assert (progress.last_step, progress.stall_due_ns) == (200, at(steps[-1][1] + 800))


@pytest.mark.parametrize(
    ("counts_steps", "patience_s"),
    [
        pytest.param(False, 7 * 24 * 3600, id="a-server"),
        pytest.param(True, 1800, id="a-trainer-that-asks-a-server"),
    ],
)
def test_a_server_may_be_idle_for_a_week(counts_steps: bool, patience_s: int) -> None:
    progress = settled(*every(10, 118)) if counts_steps else settled()
    for number in range(0 if counts_steps else 118):
        progress.count(at(10 * number))
    progress.begin_phase("serving", at(117 * 10 + 1))
    assert progress.stall_due_ns == at(117 * 10 + 1 + patience_s)


def test_a_phase_lasts_until_the_next_step() -> None:
    progress = settled(*every(5, 117))
    progress.begin_phase("checkpoint", at(581))
    assert progress.stall_due_ns == at(581 + 1800)
    progress.step(117, at(700))
    assert progress.stall_due_ns == at(720)


def test_a_line_of_a_phase_extends_it() -> None:
    progress = settled(*every(5, 117))
    for second in (581, 1500, 3000):
        progress.begin_phase("evaluation", at(second))
        assert progress.stall_due_ns == at(second + 1800)


def test_a_progress_bar_without_a_name_extends_a_phase() -> None:
    progress = settled(*every(5, 117))
    progress.begin_phase("evaluation", at(581))
    assert not progress.count(at(1500))
    assert progress.stall_due_ns == at(1500 + 1800)


def test_ten_minutes_are_left_when_a_phase_has_ended() -> None:
    progress = settled(*every(5, 117))
    progress.begin_phase("checkpoint", at(581))
    progress.save(116, at(1500))
    assert progress.stall_due_ns == at(1500 + 600)


def test_a_phase_announced_at_its_start_is_no_pause_without_notice() -> None:
    progress = after(*every(5, 487))
    for second, phase in (1, "evaluation"), (900, "evaluation"), (1200, "after-evaluation"):
        progress.begin_phase(phase, at(486 * 5 + second))
    for step, second in every(5, 632, first=487, start_s=486 * 5 + 1205):
        progress.step(step, at(second))
    assert progress.stall_due_ns == at(486 * 5 + 1205 + 631 * 5 + 20)


@pytest.mark.parametrize("second", [20, 20.01, 50], ids=["same-time", "just-after", "same-minute"])
@pytest.mark.parametrize("step", [4, 3], ids=["same-step", "straggler"])
def test_a_slower_rank_s_report_changes_nothing(step: int, second: float) -> None:
    progress = after(*every(5, 5))
    assert not progress.step(step, at(second))
    assert (progress.last_step, progress.last_step_ns) == (4, at(20))


def test_a_slower_rank_may_lag_by_two_paces() -> None:
    progress = after(*every(300, 5))
    assert not progress.step(3, at(1200 + 590))
    assert progress.last_step == 4


def test_continues_from_a_checkpoint() -> None:
    progress = after(*every(5, 101))
    assert progress.step(51, at(800))
    assert not progress.step(51, at(801))
    assert progress.step(52, at(805))
    assert (progress.last_step, progress.pace_ns) == (52, 5 * NS_PER_S)
    assert progress.stall_due_ns == at(805 + 900)


def test_its_sentence_has_the_last_step_and_the_pace() -> None:
    assert after(*every(5, 5)).sentence() == "no step after step 4; until then a step took 5.0 s"


def test_an_unknown_step_is_none_and_minus_one_in_snapshots() -> None:
    progress = JobProgress(0)
    assert (progress.last_step, progress.saved_step) == (None, None)
    written = msgspec.to_builtins(progress)
    assert (written["last_step"], written["saved_step"], written["told_step"]) == (-1, -1, -1)
    progress.step(0, at(1))
    progress.save(0, at(2))
    assert (progress.last_step, progress.saved_step) == (0, 0)
