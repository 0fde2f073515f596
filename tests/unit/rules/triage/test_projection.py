"""The projection table of a report: steps completed, left and lost, and the step expected by now."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epicenter.rules.triage.document import ProgressReport
from tests.support.job_logs import absl, header, lightning, maxtext, megatron, param, report_on, stage, steps, summary
from tests.support.logs import iso

FAILED = summary(1, "Training FAILED (exit=1)")


def progress(lines: Sequence[str], now: float | None = None, job_state: str = "") -> ProgressReport:
    return report_on(lines, now, job_state).progress


def test_a_run_from_the_beginning_has_every_row() -> None:
    found = progress([*header("steps=1000"), param("checkpoint_period", 100), *steps(0, 450), *FAILED])
    assert found == ProgressReport(
        start="fresh",
        restored_step=None,
        first_step=0,
        last_step=450,
        last_step_time=iso(2250).replace(".000000Z", ".000000000Z"),
        is_time_estimated=False,
        steps_this_run=451,
        steps_done=451,
        total_steps=1000,
        percent=45.1,
        step_time_s=5.0,
        expected_step_now=450,
        checkpoint_period=100,
        last_checkpoint_step=400,
        steps_lost=50,
        time_lost_s=250.0,
        time_left_s=549 * 5.0,
        attempts=1,
    )


RESTORED = "I0302 09:00:00.100000 1405 checkpointing.py:300] restoring from this run's directory step 800"
NO_CHECKPOINT = "(TrainActor pid=771, ip=10.1.0.9) No existing checkpoints found, not restoring checkpoint."
MEGATRON_RESTORED = "  successfully loaded checkpoint from /ckpt/run7 [ t 1/8, p 1/4 ] at iteration 100"

STARTS = {
    "first-step-0": (steps(0, 9), ("fresh", None)),
    "first-step-1-is-the-checkpoint-of-step-0": (steps(1, 9), ("restored", 0)),
    "first-step-801": (steps(801, 809), ("restored", 800)),
    "the-log-says-restored": ([RESTORED, *steps(801, 809)], ("restored", 800)),
    "the-log-says-fresh": ([NO_CHECKPOINT, *steps(5, 9)], ("fresh", None)),
    "the-newest-of-both-counts": ([NO_CHECKPOINT, RESTORED, *steps(801, 809)], ("restored", 800)),
    "one-based-from-1": ([megatron(step) for step in range(1, 9)], ("fresh", None)),
    "one-based-from-101": ([megatron(step) for step in range(101, 109)], ("restored", 100)),
    "one-based-each-100": ([megatron(step) for step in range(100, 900, 100)], ("fresh", None)),
    "one-based-each-100-from-500": ([megatron(step) for step in range(500, 900, 100)], ("unknown", None)),
    "one-based-restored": ([MEGATRON_RESTORED, *(megatron(step) for step in (200, 300))], ("restored", 100)),
}


@pytest.mark.parametrize(("lines", "expected"), STARTS.values(), ids=STARTS)
def test_the_start_is_the_first_or_the_restored_step(lines: list[str], expected: tuple[str, int | None]) -> None:
    found = progress(lines)
    assert (found.start, found.restored_step) == expected


MADE = {
    "from-0-to-9": (steps(0, 9), 10, 10),
    "restored-801-to-809": (steps(801, 809), 9, 810),
    "one-based": ([megatron(step) for step in range(1, 10)], 9, 9),
    "one-based-each-100": ([megatron(step) for step in range(100, 600, 100)], 500, 500),
    "one-based-restored-each-100": ([megatron(step) for step in range(300, 600, 100)], 300, 500),
}


@pytest.mark.parametrize(("lines", "this_run", "in_all"), MADE.values(), ids=MADE)
def test_steps_of_this_run_and_of_all_runs_are_counted(lines: list[str], this_run: int, in_all: int) -> None:
    found = progress(lines)
    assert (found.steps_this_run, found.steps_done) == (this_run, in_all)


PERIODS = {
    "stated": (["Config param checkpoint_period: 100"], "steps=1000", 100),
    "default-when-on": ([], "steps=1000 enable_checkpointing=true", 200),
    "default-when-on-by-configuration": (["Config param enable_checkpointing: True"], "steps=1000", 200),
    "in-the-arguments": ([], "steps=1000 enable_checkpointing=true checkpoint_period=50", 50),
    "off-in-spite-of-a-period": (
        ["Config param checkpoint_period: 100"],
        "steps=1000 enable_checkpointing=false",
        None,
    ),
    "not-reported": ([], "steps=1000", None),
}


@pytest.mark.parametrize(("lines", "args", "expected"), PERIODS.values(), ids=PERIODS)
def test_the_checkpoint_period_is_that_of_the_saved_steps(lines: list[str], args: str, expected: int | None) -> None:
    assert progress([*header(args), *lines, *steps(0, 9)]).checkpoint_period == expected


SAVED = "Saved a checkpoint at step {}."
LOSSES = {
    "before-the-first-period": (steps(0, 150), None, 151),
    "at-the-period": (steps(0, 200), 200, 0),
    "after-two-periods": (steps(0, 450), 400, 50),
    "the-save-of-step-0-never-counts": ([*steps(0, 5), SAVED.format(0), *steps(6, 50)], None, 51),
    "restored-and-one-more-period": (steps(801, 1050), 1000, 50),
    "restored-and-no-period-since": (steps(801, 950), 800, 150),
    "restored-between-periods": (["restoring from this run's directory step 850", *steps(851, 950)], 800, 100),
    "restored-before-the-first-period": (steps(101, 150), None, 50),
    "what-the-log-says-was-saved": ([*steps(0, 330), SAVED.format(330), *steps(331, 390)], 330, 60),
}


@pytest.mark.parametrize(("lines", "saved", "lost"), LOSSES.values(), ids=LOSSES)
def test_steps_after_the_last_checkpoint_are_lost(lines: list[str], saved: int | None, lost: int) -> None:
    found = progress([*header("steps=2000 enable_checkpointing=true"), *lines, *FAILED])
    assert (found.last_checkpoint_step, found.steps_lost, found.time_lost_s) == (saved, lost, lost * 5.0)


def test_without_checkpoints_all_steps_are_lost() -> None:
    found = progress([*header("steps=2000"), *steps(0, 450), *FAILED])
    assert (found.last_checkpoint_step, found.steps_lost) == (None, 451)


def test_a_job_that_completed_lost_nothing() -> None:
    found = progress([*header(), *steps(0, 999), *summary(0)])
    assert (found.steps_lost, found.time_lost_s, found.time_left_s, found.percent) == (0, 0.0, 0.0, 100.0)


TOTALS = {
    "arguments": ([*header("steps=500"), *steps(0, 9)], 500),
    "configuration": ([param("steps", 700), *steps(0, 9)], 700),
    "arguments-before-configuration": ([*header("steps=500"), param("steps", 700), *steps(0, 9)], 500),
    "progress-line": ([megatron(step, total=300) for step in range(1, 9)], 300),
    "unknown": (steps(0, 9), None),
    "minus-one-is-no-total": ([param("steps", -1), *steps(0, 9)], None),
}


@pytest.mark.parametrize(("lines", "expected"), TOTALS.values(), ids=TOTALS)
def test_the_total_comes_from_the_log(lines: list[str], expected: int | None) -> None:
    assert progress(lines).total_steps == expected


EXPECTED = {
    "on-time": (1504.0, 300),
    "ten-steps-behind": (1550.0, 310),
    "an-hour-behind": (1500 + 3600.0, 1000 - 1),
    "a-clock-that-runs-behind": (1400.0, 300),
}


@pytest.mark.parametrize(("now", "expected"), EXPECTED.values(), ids=EXPECTED)
def test_the_expected_step_follows_from_the_step_time(now: float, expected: int) -> None:
    assert progress([*header(), *steps(0, 300)], now, "RUNNING").expected_step_now == expected


def test_one_based_steps_end_at_the_total() -> None:
    lines = [megatron(step) for step in range(1, 301)]
    assert progress(lines, 1e6, "RUNNING").expected_step_now == 1000
    assert progress(lines).time_left_s == 700 * 5.0


def test_lines_without_times_are_dated_by_their_step_times_and_lines_nearby() -> None:
    lines = [*header(), absl(0, "loading"), *(maxtext(step, second=-1) for step in range(21))]
    found = progress(lines, now=200, job_state="RUNNING")
    assert (found.last_step_time or "")[:19] == "2026-03-02T09:01:40"
    assert (found.is_time_estimated, found.expected_step_now) == (True, 40)


def test_a_log_without_times_has_no_expected_step() -> None:
    found = progress([*header(), *(maxtext(step, second=-1) for step in range(21))], now=200, job_state="RUNNING")
    assert (found.last_step_time, found.expected_step_now, found.step_time_s) == (None, None, 5.0)


def test_a_job_without_a_step_has_its_plan() -> None:
    found = progress([*header(), param("checkpoint_period", 50), *FAILED])
    assert found == ProgressReport(total_steps=1000, checkpoint_period=50)


def test_a_restart_in_a_log_is_projected_from_its_newest_attempt() -> None:
    first = [*header(), *steps(0, 450), *FAILED]
    found = progress([*first, *header("steps=900 enable_checkpointing=true"), stage("Training"), *steps(401, 430)])
    assert (found.attempts, found.first_step, found.last_step, found.total_steps) == (2, 401, 430, 900)
    assert (found.start, found.restored_step, found.steps_this_run) == ("restored", 400, 30)


def test_epochs_of_lightning_are_added_up() -> None:
    found = progress([lightning(epoch, step) for epoch in range(3) for step in range(10, 101, 10)])
    assert (found.attempts, found.first_step, found.last_step) == (1, 10, 300)
