"""The parts of a report: evidence, findings, next steps, dashboards, and the contract's fields."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.support.job_logs import (
    AT_300,
    CANCELLED,
    CONTRACT,
    LATE,
    OOM,
    TRACEBACK,
    TUNNEL,
    XID,
    header,
    labelled,
    node_exit,
    report_on,
    scancel,
    stage,
    steps,
    summary,
)

FAILED = summary(1, "Training FAILED (exit=1)")


def test_every_field_of_the_contract_is_there() -> None:
    report = msgspec.to_builtins(report_on([*AT_300, TRACEBACK, OOM, *FAILED]))
    assert set(CONTRACT) <= report.keys()
    assert {"line", "text", "class"} <= report["evidence"][0].keys()
    assert {"class", "count", "first_line", "role", "severity"} <= report["findings"][0].keys()


# evidence


def test_the_evidence_quotes_the_cause_first_word_for_word() -> None:
    report = report_on([*AT_300, labelled(3, TRACEBACK), labelled(3, OOM), "", node_exit(3, 1), *FAILED])
    assert [(line.line, line.failure_class) for line in report.evidence] == [(310, "oom-gpu"), (312, "node-fail")]
    assert report.evidence[0].text == f"{labelled(3, TRACEBACK)}\n{labelled(3, OOM)}"


def test_missing_logs_are_shown_by_the_last_step_before_them() -> None:
    (line,) = report_on(AT_300, LATE, "RUNNING").evidence
    assert (line.line, line.text, line.failure_class) == (308, AT_300[-1], "hang")


def test_a_cancelled_hang_shows_the_last_step_and_the_verdict_of_the_launcher_once() -> None:
    lines = [*AT_300, scancel(LATE), *summary(143, CANCELLED)]
    assert [line.line for line in report_on(lines).evidence] == [308, 309, 311]


def test_many_lines_of_a_class_are_counted_and_three_of_them_shown() -> None:
    kernel = [f"2026-03-02T09:25:{second:02d}.000000+00:00 gpu-a-3 kernel: {XID}" for second in range(10, 50)]
    report = report_on([*AT_300, *kernel, *FAILED])
    assert [line.failure_class for line in report.evidence] == ["xid-79"] * 3
    assert [(finding.count, finding.nodes) for finding in report.findings] == [(40, ("gpu-a-3",))]


def test_the_node_of_a_task_is_that_of_its_last_line() -> None:
    report = report_on([*AT_300, labelled(3, TRACEBACK), labelled(3, OOM), node_exit(3, 1), *FAILED])
    assert "It is first seen on gpu-a-4, by rank 3, at line 310" in report.summary


def test_the_summary_shows_the_job_s_progress() -> None:
    assert "The last completed step is 300 of a job of 1000." in report_on(AT_300, LATE).summary


# next steps

STEPS = {
    "hang": (AT_300, LATE, "RUNNING", ["`scancel 7877`", "NCCL_DEBUG=INFO", "watch its steps"]),
    "ended-hang": ([*AT_300, scancel(LATE), *summary(143, CANCELLED)], None, "", ["NCCL_DEBUG=INFO"]),
    "out-of-gpu-memory": ([*AT_300, TRACEBACK, OOM, *FAILED], None, "", ["per_device_batch_size", "remat_policy=full"]),
    "node-fail": ([*AT_300, node_exit(3, 139), *FAILED], None, "", ["core files"]),
    "cancelled": ([*AT_300, scancel(1510), *summary(143, CANCELLED)], None, "", ["Nothing to fix"]),
    "unknown-death": (AT_300, LATE, "", ["`scontrol show job 7877`", "record the metrics"]),
    "train-timeout": (
        [*AT_300, stage("Training TIMEOUT (9s/9s)"), *FAILED],
        None,
        "",
        ["STAGE_TIMEOUTS", "Rule out a hang"],
    ),
}


@pytest.mark.parametrize(("lines", "now", "job_state", "named"), STEPS.values(), ids=STEPS)
def test_the_next_steps_fit_the_failure(
    lines: Sequence[str], now: float | None, job_state: str, named: list[str]
) -> None:
    next_steps = "\n".join(report_on(lines, now, job_state).next_steps)
    assert [name for name in named if name not in next_steps] == []


def test_a_job_that_has_ended_is_not_to_be_cancelled() -> None:
    next_steps = report_on([*AT_300, scancel(LATE), *summary(143, CANCELLED)]).next_steps
    assert not any("scancel" in step for step in next_steps)


def test_a_healthy_job_needs_nothing() -> None:
    assert (report_on(AT_300, 1510).next_steps, report_on(AT_300, 1510).action) == ((), "none")


# dashboards of Ray jobs

RAY = [
    *header(ray=1),
    stage("Training"),
    TUNNEL,
    " 0: [Prometheus] Started on port 9192 (pid 771; ray: 24)",
    *steps(0, 300),
]


def test_a_live_ray_job_shows_its_tunnel_host_and_port() -> None:
    shown = "\n".join(report_on(RAY, 1510).dashboards)
    assert TUNNEL in shown
    assert "http://gpu-a-1:9192" in shown
    assert "8265" in shown


def test_the_port_of_the_tunnel_is_used_when_prometheus_has_none() -> None:
    without = [line for line in RAY if "Prometheus" not in line]
    assert "http://gpu-a-1:9191" in "\n".join(report_on(without, 1510).dashboards)


def test_an_ended_job_has_no_dashboards() -> None:
    shown = report_on([*RAY, *FAILED]).dashboards
    assert shown[0] == "The job has ended, so its dashboards are gone: do not query them."
    assert shown[1] == "Saved metrics: open a Prometheus on JOB_FOLDER/prometheus (--storage.tsdb.path)"


def test_a_job_without_ray_has_none() -> None:
    assert report_on(AT_300, 1510).dashboards == ()


def test_next_steps_of_a_hanging_ray_job_name_its_dashboard() -> None:
    next_steps = "\n".join(report_on(RAY, LATE, "RUNNING").next_steps)
    assert "Ray dashboard (port 8265)" in next_steps
    assert "spin in a collective" in next_steps


def test_metrics_next_to_the_log_are_named() -> None:
    shown = report_on([*AT_300, *FAILED], LATE, artifacts=("outputs/7877-llama/prometheus",)).dashboards
    assert "open a Prometheus on outputs/7877-llama/prometheus" in shown[1]
