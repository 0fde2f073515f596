"""An attempt that failed before the newest one is reported, with what it failed of and when."""

from __future__ import annotations

from tests.support.job_logs import OOM, TRACEBACK, VALUE_ERROR, maxtext, report_on, steps, summary

HEAD = ["PASSTHROUGH_ARGS: steps=100"]
LATER = 1000.0


def again(first: int, last: int, begun: float = LATER) -> list[str]:
    """The steps of a later attempt."""
    return [maxtext(step, begun + 5 * (step - first)) for step in range(first, last + 1)]


def test_a_completed_job_reports_the_attempt_that_failed() -> None:
    report = report_on([*HEAD, *steps(0, 40), *VALUE_ERROR, *again(0, 99), *summary(0)])
    (failed,) = report.failed_attempts
    assert (report.status, report.primary, report.progress.attempts) == ("completed", None, 2)
    assert (failed.attempt, failed.failure_class, failed.title) == (
        1,
        "python-exception",
        "ValueError: bad shape at train.py:88",
    )
    assert (failed.last_step, failed.line, failed.file, failed.time) == (40, 46, "", "2026-03-02T09:03:20.000000000Z")
    assert report.summary == (
        "The job completed normally. Attempt 1 failed after step 40, at 2026-03-02 09:03:20Z, line 46: "
        "ValueError: bad shape at train.py:88."
    )


def test_an_attempt_without_times_is_reported_by_its_line() -> None:
    lines = [maxtext(step, second=-1) for step in range(41)]
    report = report_on([*HEAD, *lines, *VALUE_ERROR, *lines, *summary(0)])
    assert [(failed.time, failed.line) for failed in report.failed_attempts] == [(None, 46)]
    assert "Attempt 1 failed after step 40, line 46: " in report.summary


def test_each_attempt_has_its_own_failure_and_the_newest_is_the_primary() -> None:
    oom = [TRACEBACK, OOM]
    report = report_on(
        [*HEAD, *steps(0, 40), *VALUE_ERROR, *again(0, 30), *oom, *again(0, 20, 2 * LATER), *VALUE_ERROR, *summary(1)]
    )
    failed = [(failed.attempt, failed.failure_class, failed.last_step) for failed in report.failed_attempts]
    assert failed == [(1, "python-exception", 40), (2, "oom-gpu", 30)]
    assert (report.status, report.primary) == ("failed", "python-exception")


def test_steps_that_begin_again_without_a_failure_are_no_failed_attempt() -> None:
    assert report_on([*HEAD, *steps(0, 40), *again(0, 99), *summary(0)]).failed_attempts == ()


def test_an_error_that_an_attempt_outlived_is_not_what_it_failed_of() -> None:
    report = report_on([*HEAD, *steps(0, 20), *VALUE_ERROR, *steps(21, 60), *again(0, 99), *summary(0)])
    assert report.failed_attempts == ()


def test_many_failed_attempts_are_counted_and_the_newest_named() -> None:
    attempts = [line for number in range(5) for line in (*again(0, 40, number * LATER), *VALUE_ERROR)]
    report = report_on([*HEAD, *attempts, *again(0, 99, 5 * LATER), *summary(0)])
    assert [failed.attempt for failed in report.failed_attempts] == [1, 2, 3, 4, 5]
    assert "2 earlier attempts failed as well. Attempt 3 failed" in report.summary
