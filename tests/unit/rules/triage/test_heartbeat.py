"""The checklist for JAX heartbeat timeouts: who is accused, who was alive, and whether a death was real."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.job_logs import (
    VALUE_ERROR,
    header,
    heartbeat,
    labelled,
    maxtext,
    param,
    polled,
    report_on,
    stage,
    steps,
    summary,
)

BEFORE = [*header(), stage("Training"), *steps(0, 300)]
FAILED = summary(1, "Training FAILED (exit=1)")
NO_STEPS = "unknown: their lines have no recent step"

ACCUSED = "Which tasks were reported dead?"
ALIVE = "Did one of them report the error itself?"
EARLIER = "Did one of them fail earlier?"
STEPPING = "Did one of them still complete steps?"
VERDICT = "Real death or false alarm?"


def answers(lines: Sequence[str]) -> dict[str, str]:
    return {check.question: check.answer for check in report_on([*BEFORE, *lines, *FAILED]).checks}


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [([3], "3"), ([8, 3, 5], "3, 5, 8"), (range(20), "0, 1, 2, 3, 4, 5, 6, 7 … (20 in all)")],
    ids=["one", "some", "many"],
)
def test_the_accused_tasks_are_read_from_all_lines_of_the_error(tasks: Sequence[int], expected: str) -> None:
    assert answers(heartbeat(1600, tasks))[ACCUSED] == expected


def test_an_error_that_names_no_task_accuses_none() -> None:
    found = answers([heartbeat(1600, [])[-1]])
    assert (found[ACCUSED], found[VERDICT]) == (
        "the log does not name them",
        "most likely a false alarm: no line shows a death",
    )


@pytest.mark.parametrize("task", [3, 5])
def test_a_task_that_reports_the_error_was_alive(task: int) -> None:
    found = answers([*heartbeat(1600, [3, 5]), polled(1600, 0), polled(1601, task)])
    assert found[ALIVE] == f"yes, task {task}: it was alive"
    assert found[VERDICT] == "a false alarm: a task that was reported dead was alive"


def test_every_task_that_reports_counts_and_not_only_the_last_one() -> None:
    found = answers([*heartbeat(1600, [3, 5]), *(polled(1600, task) for task in (3, 5, 7, 0))])
    assert found[ALIVE] == "yes, task 3, 5: it was alive"


def test_reports_of_other_tasks_prove_nothing_about_the_accused() -> None:
    found = answers([*heartbeat(1600, [3]), polled(1600, 0), polled(1600, 1)])
    assert found[ALIVE] == "no line shows it"


def test_an_earlier_error_of_an_accused_task_is_a_real_death() -> None:
    found = answers([*(labelled(3, line) for line in VALUE_ERROR), *heartbeat(1600, [3, 5]), polled(1600, 5)])
    assert found[EARLIER].startswith("python-exception on task 3 at line ")
    assert found[VERDICT] == "a real death: the earlier error is the cause"


ELSEWHERE = {
    "of-another-task": [*(labelled(1, line) for line in VALUE_ERROR), *heartbeat(1600, [3])],
    "after-the-report": [*heartbeat(1600, [3]), *(labelled(3, line) for line in VALUE_ERROR)],
}


@pytest.mark.parametrize("lines", ELSEWHERE.values(), ids=ELSEWHERE)
def test_errors_of_another_task_or_after_the_report_prove_no_death(lines: Sequence[str]) -> None:
    found = answers(lines)
    assert found[EARLIER] == "no: none of them logged an error before"
    assert found[VERDICT] == "most likely a false alarm: no line shows a death"


def test_an_error_of_the_seventh_rank_is_not_forgotten() -> None:
    failing = [labelled(task, line) for task in range(12) for line in (*VALUE_ERROR, "done")]
    assert answers([*failing, *heartbeat(1600, [11])])[EARLIER].startswith("python-exception on task 11 at line ")


def test_an_accused_task_that_still_made_steps_was_alive() -> None:
    both = [maxtext(step, task=task) for step in range(301, 320) for task in (0, 3)]
    found = answers([*both, *heartbeat(1600, [3, 5])])
    assert found[STEPPING] == "yes, task 3 got as far as the others"
    assert found[VERDICT] == "a false alarm: a task that was reported dead was alive"


def test_an_accused_task_that_fell_behind_proves_nothing() -> None:
    ahead = [maxtext(step, task=0) for step in range(301, 320)]
    assert answers([maxtext(301, task=3), *ahead, *heartbeat(1600, [3])])[STEPPING] == NO_STEPS


def test_the_time_without_steps_before_the_error_is_reported() -> None:
    assert answers(heartbeat(1600, [3]))["Had the job stalled before?"] == "the last step (300) was 100 s earlier"


def test_a_configured_time_out_is_no_heartbeat_error() -> None:
    lines = [*BEFORE, param("jax_distributed_heartbeat_timeout_seconds", 14400)]
    assert report_on(lines, 1510).checks == ()
