"""Hangs, deaths without a line, exit codes, markers, late failures: the questions and what the log answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epicenter.rules.triage.document import Check
from tests.support.job_logs import (
    AT_300,
    CANCELLED,
    HEAD,
    LATE,
    OOM,
    TRACEBACK,
    VALUE_ERROR,
    absl,
    labelled,
    maxtext,
    node_exit,
    report_on,
    scancel,
    stage,
    steps,
    summary,
)

FAILED = summary(1, "Training FAILED (exit=1)")


def answers(lines: Sequence[str], now: float | None = None, job_state: str = "") -> dict[str, str]:
    return {check.question: check.answer for check in report_on(lines, now, job_state).checks}


# hangs


def test_a_hang_shows_how_far_behind_the_job_is() -> None:
    found = answers(AT_300, 1500 + 3600, "RUNNING")
    assert found["How far behind is the job?"] == (
        "the last step is 300, at 2026-03-02T09:25:00Z; 3600 s later, 999 was expected"
    )
    assert found["Does the log show a failure?"] == "no: none before the stop"
    assert found["Would heartbeats detect it?"].startswith("no: ")


OTHER = {
    "silence": ([], "no: no line follows the last step, so check first whether the processes are alive"),
    "noise": (
        [absl(4500, "Config param steps: 9")],
        "yes, up to 3000 s after the last step: processes are alive, but make no progress",
    ),
}


@pytest.mark.parametrize(("lines", "expected"), OTHER.values(), ids=OTHER)
def test_lines_still_written_distinguish_a_hang_from_a_death(lines: Sequence[str], expected: str) -> None:
    assert answers([*AT_300, *lines], LATE, "RUNNING")["Are other lines still written?"] == expected


RANKS = {
    "all-together": (range(4), "yes: all 4 ranks that print steps stopped at the same step, so a collective hangs"),
    "one-behind": ((0, 1, 3), "no: rank 2 had not finished the last step, so look there first"),
    "two-behind": ((0, 3), "no: rank 1, 2 had not finished the last step, so look there first"),
}


@pytest.mark.parametrize(("at_last_step", "expected"), RANKS.values(), ids=RANKS)
def test_ranks_that_stopped_at_different_steps_are_listed(at_last_step: Sequence[int], expected: str) -> None:
    lines = [maxtext(step, task=task) for step in range(20) for task in range(4)]
    lines += [maxtext(20, task=task) for task in at_last_step]
    assert answers([*HEAD, *lines], LATE, "RUNNING")["Did all ranks stop together?"] == expected


def test_a_single_stream_does_not_show_which_rank_stopped() -> None:
    assert "only one stream" in answers(AT_300, LATE, "RUNNING")["Did all ranks stop together?"]


def test_a_hang_that_was_cancelled_is_diagnosed_as_of_the_cancellation() -> None:
    found = report_on([*AT_300, scancel(1500 + 1800), *summary(143, CANCELLED)])
    assert (found.primary, found.progress.expected_step_now) == ("hang", 660)
    assert "1800 s later, 660 was expected" in next(
        check.answer for check in found.checks if check.question == "How far behind is the job?"
    )


@pytest.mark.parametrize(
    ("artifacts", "expected"),
    [
        ((), "no core file next to the log; a crash leaves one, a hang does not"),
        (("outputs/7877-llama/core.4711",), "perhaps: outputs/7877-llama/core.4711 next to the log"),
    ],
    ids=["no-core", "a-core"],
)
def test_core_files_indicate_a_crash(artifacts: tuple[str, ...], expected: str) -> None:
    report = report_on(AT_300, LATE, "RUNNING", folder="outputs/7877-llama", artifacts=artifacts)
    assert Check("Did a process crash?", expected) in report.checks


# deaths without a line


def test_an_unknown_death_is_narrowed_down_by_questions() -> None:
    found = answers(AT_300, LATE)
    assert list(found)[:5] == [
        "Is there a trace of an out-of-memory kill?",
        "Is the log cut off?",
        "What does the scheduler report?",
        "What does the kernel report?",
        "What remains?",
    ]
    assert found["What does the scheduler report?"] == "unknown: pass --job-state"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("PREEMPTED", None),
        ("TIMEOUT", "TIMEOUT: it reached its time limit"),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY: memory ran out"),
        ("NODE_FAIL", "NODE_FAIL: a node failed"),
    ],
)
def test_the_scheduler_s_state_is_explained(state: str, expected: str | None) -> None:
    assert answers(AT_300, LATE, state).get("What does the scheduler report?") == expected


@pytest.mark.parametrize(
    ("is_cut_off", "expected"),
    [(True, "perhaps: its last line has no end"), (False, "no: its last line is complete")],
    ids=["torn", "whole"],
)
def test_a_log_that_ends_within_a_line_was_killed_abruptly(is_cut_off: bool, expected: str) -> None:
    report = report_on([*AT_300, "I0302 09:25:04.1 140110937 metric_lo"], LATE, is_cut_off=is_cut_off)
    assert Check("Is the log cut off?", expected, "I0302 09:25:04.1 140110937 metric_lo") in report.checks


# exit codes


@pytest.mark.parametrize(
    ("code", "expected"),
    [(134, "SIGABRT"), (137, "SIGKILL"), (139, "SIGSEGV"), (135, "SIGBUS"), (124, "timeout(1)"), (1, "ordinary error")],
)
def test_exit_codes_of_nodes_are_explained(code: int, expected: str) -> None:
    lines = [*AT_300, node_exit(3, code), node_exit(0, 143), *summary(1)]
    assert expected in answers(lines)[f"What does exit code {code} on gpu-a-4 mean?"]


def test_exit_codes_of_stage_and_script_are_explained() -> None:
    found = answers([*AT_300, stage("Training FAILED (exit=139, 40s)"), *summary(1, "Training FAILED (exit=139)")])
    assert "What does exit code 139 mean?" in found
    assert "What does exit code 1 mean?" in found


def test_nodes_that_all_end_with_143_were_cancelled() -> None:
    lines = [*AT_300, scancel(1510), *(node_exit(task, 143) for task in range(8)), *summary(143, CANCELLED)]
    assert answers(lines)["Did a node end by itself?"] == "no: all 8 nodes ended with 143, a clean cancellation"


def test_the_node_that_ended_first_is_the_originator() -> None:
    exits = [node_exit(2, 143), node_exit(5, 137), node_exit(1, 134), node_exit(0, 143)]
    found = answers([*AT_300, *exits, *FAILED])
    assert found["Which node ended first?"] == "gpu-a-6 with 137, at line 310; 2 nodes ended with 143"


def test_lines_of_a_failed_node_s_task_are_found_by_their_label() -> None:
    errors = [labelled(5, line) for line in VALUE_ERROR]
    found = answers([*AT_300, *errors, node_exit(5, 1), node_exit(4, 1), *FAILED])
    assert found["What did gpu-a-6 print?"].startswith("python-exception at line ")
    assert found["What did gpu-a-5 print?"].startswith("nothing that a rule matches")


# markers


def marker(batch: int, name: str, task: int | None = None) -> str:
    return labelled(task, f"batch={batch} stage={name}")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("preprocess", "data loading"),
        ("before_forward", "forward pass"),
        ("after_forward", "backward pass"),
        ("before_backward", "backward pass"),
        ("after_backward", "optimizer step"),
    ],
)
def test_the_last_marker_names_the_part_of_the_step(name: str, part: str) -> None:
    report = report_on([marker(9, "after_backward"), marker(10, name)])
    assert report.stage == f"Training, {part}"


BEHIND = {
    "another-part": (
        [marker(10, "after_forward", 0), marker(10, "before_forward", 1), marker(10, "after_forward", 2)],
        "yes, rank 1 at before_forward, while others are at after_forward: suspect it first",
    ),
    "another-batch": (
        [marker(11, "preprocess", 0), marker(10, "after_backward", 1)],
        "yes, rank 1 at after_backward, while others are at preprocess: suspect it first",
    ),
    "together": (
        [marker(10, "before_backward", 0), marker(10, "before_backward", 1)],
        "no: all stopped at before_backward, so a collective may hang",
    ),
}


@pytest.mark.parametrize(("lines", "expected"), BEHIND.values(), ids=BEHIND)
def test_the_rank_whose_markers_are_behind_is_the_suspect(lines: Sequence[str], expected: str) -> None:
    assert answers(lines)["Is a rank behind the others?"] == expected


def test_the_stage_is_that_of_the_rank_behind() -> None:
    assert report_on(BEHIND["another-part"][0]).stage == "Training, forward pass"


# late failures and restarts


def test_a_failure_after_the_last_step_lost_no_work() -> None:
    errors = [labelled(3, line) for line in VALUE_ERROR]
    report = report_on([*HEAD, *steps(0, 999), *errors, stage("Training FAILED (exit=1, 40s)"), *FAILED])
    assert report.status == "failed"
    assert report.checks[0].question == "Was the work done?"
    assert report.next_steps[0].startswith("Do not submit it again")
    assert "All steps were completed" in report.summary


def test_one_step_short_is_an_ordinary_failure() -> None:
    report = report_on([*HEAD, *steps(0, 998), TRACEBACK, OOM, *FAILED])
    assert report.checks[0].question != "Was the work done?"


def test_a_restart_within_a_log_is_reported() -> None:
    found = answers([*AT_300, *FAILED, *HEAD, *steps(201, 250), *FAILED])
    assert found["Was the job restarted?"] == "yes: this log has 2 attempts; this is the newest"


def test_a_healthy_job_needs_no_diagnosis() -> None:
    assert report_on(AT_300, 1510).checks == ()
    assert report_on([*HEAD, *steps(0, 999), *summary(0)]).checks == ()
