"""The status of a job and its primary failure: the decision table of job-log-triage, and the failure behind an end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epicenter.rules.triage.assessment import Circumstances, SilenceKind, assess
from tests.support.job_logs import (
    AT_300,
    CANCELLED,
    HEAD,
    LATE,
    OOM,
    TRACEBACK,
    VALUE_ERROR,
    XID,
    absl,
    header,
    heartbeat,
    labelled,
    lightning,
    maxtext,
    megatron,
    node_exit,
    param,
    report_on,
    scancel,
    section_of,
    stage,
    steps,
    summary,
)
from tests.support.logs import at, the_rules

FAILED = summary(1, "Training FAILED (exit=1)")
OOM_LINES = [labelled(3, TRACEBACK), labelled(3, OOM)]
ERROR_LINES = [labelled(3, text) for text in VALUE_ERROR]
RAY_FAILED = "[Ray] HEAD failed to start (port 6379, dashboard 8265, bind 10.0.0.1)"
KILLED = "/opt/run.sh: line 14:  4711 Killed                  python3 train.py"
ALL_143 = [node_exit(task, 143) for task in range(4)]


def _epoch(epoch: int, epochs: int) -> str:
    return f"Epoch {epoch}/{epochs}: 100%|██████████| 500/500 [08:20<00:00,  1.00s/it]"


LATER_STEPS = [maxtext(step, 2000 + 5.0 * step) for step in range(201, 301)]

Case = tuple[Sequence[str], float | None, str, str]

STATUS: dict[str, Case] = {
    "summary-success": ([*HEAD, *steps(0, 999), *summary(0)], None, "", "completed"),
    "summary-success-after-a-survived-error": (
        [*HEAD, *ERROR_LINES, *steps(0, 999), *summary(0)],
        None,
        "",
        "completed",
    ),
    "the-first-epoch-of-many": ([_epoch(1, 3)], None, "", "unknown-death"),
    "many-epochs-of-more": ([_epoch(epoch, 30) for epoch in range(1, 12)], None, "", "unknown-death"),
    "the-last-epoch-of-many": ([_epoch(epoch, 3) for epoch in (1, 2, 3)], None, "", "completed"),
    "summary-failed": ([*AT_300, *FAILED], None, "", "failed"),
    "summary-failed-though-slurm-says-completed": ([*AT_300, *FAILED], None, "COMPLETED", "failed"),
    "summary-failed-137": ([*AT_300, *summary(137)], None, "", "failed"),
    "summary-130": ([*AT_300, *summary(130, CANCELLED)], None, "", "cancelled"),
    "summary-143": ([*AT_300, *summary(143, CANCELLED)], None, "", "cancelled"),
    "summary-143-though-slurm-says-running": ([*AT_300, *summary(143, CANCELLED)], 1510, "RUNNING", "cancelled"),
    "steps-advance": (AT_300, 1510, "", "running"),
    "steps-advance-and-slurm-knows": (AT_300, 1510, "RUNNING", "running"),
    "a-checkpoint-may-take-its-time": (AT_300, 1500 + 60, "RUNNING", "running"),
    "steps-stopped-and-slurm-says-running": (AT_300, LATE, "RUNNING", "hanging"),
    "steps-stopped-other-lines-flow": ([*AT_300, absl(LATE - 5, "topology dump")], LATE, "RUNNING", "hanging"),
    "two-slow-steps-are-no-stop": (
        [*HEAD, *(maxtext(step, seconds=300.0) for step in range(20))],
        19 * 300 + 800,
        "RUNNING",
        "running",
    ),
    "steps-stopped-and-slurm-unknown": (AT_300, LATE, "", "unknown-death"),
    "steps-stopped-and-slurm-says-failed": (AT_300, LATE, "FAILED", "unknown-death"),
    "steps-recent-but-slurm-says-ended": (AT_300, 1510, "NODE_FAIL", "unknown-death"),
    "error-and-slurm-says-failed": ([*AT_300, *OOM_LINES], LATE, "FAILED", "failed"),
    "slurm-says-cancelled": (AT_300, LATE, "CANCELLED by 1000", "cancelled"),
    "slurm-says-preempted": (AT_300, LATE, "PREEMPTED", "cancelled"),
    "slurm-says-completed": (AT_300, LATE, "COMPLETED", "completed"),
    "no-summary-but-an-error": ([*AT_300, *OOM_LINES], LATE, "", "failed"),
    "no-summary-and-a-survived-error": ([*HEAD, *ERROR_LINES, *steps(0, 300)], 1510, "", "running"),
    "no-summary-but-slurm-cancelled-it": ([*AT_300, scancel(1510)], LATE, "", "cancelled"),
    "all-nodes-143-though-steps-were-recent": ([*AT_300, *ALL_143], 1510, "", "cancelled"),
    "all-nodes-143-after-an-error": ([*AT_300, *OOM_LINES, *ALL_143], LATE, "", "failed"),
    "no-summary-but-all-nodes-143": ([*AT_300, *ALL_143], LATE, "", "cancelled"),
    "no-summary-but-the-last-step-was-made": ([*HEAD, *steps(0, 999)], None, "", "completed"),
    "megatron-made-its-last-step": ([megatron(step) for step in range(901, 1001)], None, "", "completed"),
    "megatron-says-it-ends": (
        [megatron(500), "[exiting program at iteration 500] datetime: 2026-03-02 12:00:00"],
        None,
        "",
        "completed",
    ),
    "lightning-says-it-ends": (
        [lightning(0, 100), "`Trainer.fit` stopped: `max_epochs=1` reached."],
        None,
        "",
        "completed",
    ),
    "an-error-after-the-end": ([*HEAD, *steps(0, 999), *ERROR_LINES], None, "", "failed"),
    "the-end-of-an-epoch-is-not-the-end": (
        [lightning(epoch, step) for epoch in range(2) for step in range(10, 101, 10)],
        None,
        "",
        "unknown-death",
    ),
    "summary-cut-off-before-its-status": ([*AT_300, summary(1)[0]], LATE, "", "unknown-death"),
    "no-step-yet": ([*HEAD, absl(10, "Config param steps: 1000")], 900, "RUNNING", "running"),
    "no-step-for-hours": ([*HEAD, absl(10, "Config param steps: 1000")], LATE, "RUNNING", "running"),
    "a-kernel-s-log": ([f"[ 9.123456] {XID}"], None, "", "no-job"),
    "an-error-of-a-program": (VALUE_ERROR, None, "", "failed"),
    "a-second-run-after-a-failed-one": ([*AT_300, *FAILED, *HEAD, *steps(201, 300)], 1510, "", "running"),
    "a-second-run-that-died": ([*AT_300, *FAILED, *HEAD, *steps(201, 300)], LATE, "", "unknown-death"),
    "a-second-run-that-completed": ([*AT_300, *FAILED, *HEAD, *steps(201, 999), *summary(0)], None, "", "completed"),
}


@pytest.mark.parametrize(("lines", "now", "job_state", "expected"), STATUS.values(), ids=STATUS)
def test_the_status_follows_the_decision_table(
    lines: Sequence[str], now: float | None, job_state: str, expected: str
) -> None:
    assert report_on(lines, now, job_state).status == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(1, "no-job"), (9, "no-job"), (10, "unknown-death"), (200, "unknown-death")]
)
def test_a_few_steps_may_be_a_piece_of_a_longer_log(count: int, expected: str) -> None:
    lines = [maxtext(step) for step in range(count)]
    assert report_on(lines, name="pasted.log").status == expected


@pytest.mark.parametrize(
    ("head", "name", "expected"),
    [
        pytest.param([], "pasted.log", "no-job", id="a-bare-log"),
        pytest.param(HEAD, "pasted.log", "unknown-death", id="a-launcher-printed-its-lines"),
        pytest.param([], "slurm-7877.out", "unknown-death", id="a-job-is-named"),
    ],
)
def test_steps_without_times_prove_a_death_only_with_a_job_or_its_launcher(
    head: list[str], name: str, expected: str
) -> None:
    lines = [*head, *(maxtext(step, second=-1) for step in range(30))]
    report = report_on(lines, name=name)
    assert report.status == expected
    doubts = {
        "no-job": "shows steps 0 to 29 without times, but neither",
        "unknown-death": "also be of a job that still",
    }
    assert doubts[expected] in report.summary


def test_only_the_given_time_and_state_decide_whether_a_job_hangs() -> None:
    """Nothing here has a modification time: the same lines hang or run by the query."""
    queries = [(1510.0, "RUNNING"), (LATE, "RUNNING"), (LATE, "")]
    assert [report_on(AT_300, now, state).status for now, state in queries] == ["running", "hanging", "unknown-death"]


PRIMARY: dict[str, tuple[Sequence[str], float | None, str, str | None]] = {
    "completed": ([*HEAD, *steps(0, 999), *summary(0)], None, "", None),
    "completed-in-spite-of-a-survived-error": ([*HEAD, *ERROR_LINES, *steps(0, 999), *summary(0)], None, "", None),
    "running": (AT_300, 1510, "", None),
    "running-after-a-survived-error": ([*HEAD, *ERROR_LINES, *steps(0, 300)], 1510, "", None),
    "running-but-something-just-failed": ([*AT_300, *OOM_LINES], 1510, "RUNNING", "oom-gpu"),
    "oom": ([*AT_300, *OOM_LINES, *FAILED], None, "", "oom-gpu"),
    "the-earliest-of-a-cascade": (
        [*AT_300, *OOM_LINES, *(labelled(0, text) for text in VALUE_ERROR), *FAILED],
        None,
        "",
        "oom-gpu",
    ),
    "a-survived-start-up-failure-is-not-it": (
        [*HEAD, RAY_FAILED, *steps(0, 300), *OOM_LINES, *FAILED],
        None,
        "",
        "oom-gpu",
    ),
    "the-only-failure-even-if-survived": ([*HEAD, RAY_FAILED, *steps(0, 300), *FAILED], None, "", "ray-start-fail"),
    "hanging": (AT_300, LATE, "RUNNING", "hang"),
    "hanging-after-a-failure": ([*AT_300, *OOM_LINES], LATE, "RUNNING", "oom-gpu"),
    "hanging-long-after-a-survived-failure": ([*HEAD, RAY_FAILED, *steps(0, 300)], LATE, "RUNNING", "hang"),
    "unknown-death": (AT_300, LATE, "", "unknown-death"),
    "killed": ([*AT_300, KILLED], LATE, "", "sigkill"),
    "no-job-at-all": (["Hello.", "Good bye."], None, "", None),
    "slurm-says-out-of-memory": (AT_300, LATE, "OUT_OF_MEMORY", "slurm-oom"),
    "slurm-says-timeout": (AT_300, LATE, "TIMEOUT", "slurm-time-limit"),
    "slurm-says-preempted": ([*AT_300, *summary(143, CANCELLED)], None, "PREEMPTED", "slurm-preempted"),
    "slurm-says-node-fail": (AT_300, LATE, "NODE_FAIL", "slurm-node-fail"),
    "the-log-knows-better-than-slurm": ([*AT_300, *OOM_LINES], LATE, "TIMEOUT", "oom-gpu"),
    "only-a-summary": ([*header(), *summary(1, "unknown")], None, "", "stage-fail"),
    "cancelled-and-nothing-else": ([*AT_300, scancel(1510), *ALL_143, *summary(143, CANCELLED)], None, "", "cancelled"),
    "cancelled-by-its-exit-code-only": ([*AT_300, *summary(130)], None, "", "cancelled"),
    "cancelled-after-an-error": ([*AT_300, *OOM_LINES, scancel(1600), *summary(143, CANCELLED)], None, "", "oom-gpu"),
    "cancelled-after-a-hang": ([*AT_300, scancel(LATE), *summary(143, CANCELLED)], None, "", "hang"),
    "errors-that-the-cancellation-caused": (
        [*AT_300, scancel(1510), *ERROR_LINES, *summary(143, CANCELLED)],
        None,
        "",
        "cancelled",
    ),
    "time-limit-while-steps-advanced": (
        [*AT_300, stage("Training TIMEOUT (1510s/1510s)"), *summary(1, "Training TIMEOUT (1510s/1510s)")],
        None,
        "",
        "train-timeout",
    ),
    "time-limit-of-a-hang": (
        [*AT_300, absl(LATE, "waiting"), stage("Training TIMEOUT (9s/9s)"), *summary(1, "Training TIMEOUT (9s/9s)")],
        None,
        "",
        "hang",
    ),
    "heartbeats": ([*AT_300, *heartbeat(1600, [3]), *FAILED], None, "", "heartbeat-timeout"),
    "heartbeats-after-a-long-hang": ([*AT_300, *heartbeat(LATE, [3]), *FAILED], None, "", "hang"),
    "heartbeats-after-a-real-death": (
        [*AT_300, *ERROR_LINES, *heartbeat(1600, [3]), *FAILED],
        None,
        "",
        "python-exception",
    ),
    "heartbeats-after-a-death-with-a-time": (
        [*AT_300, absl(1590, "saving"), *ERROR_LINES, *heartbeat(1700, [3]), *FAILED],
        None,
        "",
        "python-exception",
    ),
    "heartbeats-long-after-a-survived-error": (
        [*HEAD, *steps(0, 3), *ERROR_LINES, *steps(4, 300), *heartbeat(1600, [3]), *FAILED],
        None,
        "",
        "heartbeat-timeout",
    ),
    "how-long-one-waited-counts-for-nothing-where-no-line-has-a-time": (
        [
            "[ 5233.896548] md/raid:md0: Disk failure on sdb2, disabling device.",
            "[ 5259.834757] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [md0_raid5:3222]",
        ],
        None,
        "",
        "raid-failure",
    ),
    "node-exit": ([*AT_300, node_exit(3, 137), *ALL_143, *FAILED], None, "", "node-fail"),
    "a-second-run-is-judged-by-itself": (
        [*AT_300, *OOM_LINES, *FAILED, *HEAD, labelled(3, "loading"), *LATER_STEPS, *ERROR_LINES, *FAILED],
        None,
        "",
        "python-exception",
    ),
    "a-second-run-that-fails-at-once-and-silently": (
        [*AT_300, *OOM_LINES, *FAILED, *HEAD, *steps(201, 203)],
        LATE,
        "",
        "oom-gpu",
    ),
}


@pytest.mark.parametrize(("lines", "now", "job_state", "expected"), PRIMARY.values(), ids=PRIMARY)
def test_the_primary_failure_follows_the_decision_table(
    lines: Sequence[str], now: float | None, job_state: str, expected: str | None
) -> None:
    assert report_on(lines, now, job_state).primary == expected


SILENCE: dict[str, tuple[Sequence[str], str | None, SilenceKind | None]] = {
    "steps-stopped": (AT_300, "RUNNING", SilenceKind.NO_PROGRESS),
    "steps-stopped-before-the-cancellation": (
        [*AT_300, scancel(LATE), *summary(143, CANCELLED)],
        None,
        SilenceKind.NO_PROGRESS,
    ),
    "steps-stopped-at-a-failure": ([*AT_300, *OOM_LINES], "RUNNING", None),
    "ended-without-a-word": (AT_300, None, SilenceKind.SILENT_END),
    "ended-and-slurm-says-why": (AT_300, "OUT_OF_MEMORY", None),
    "ended-by-a-failure": ([*AT_300, *OOM_LINES], None, None),
    "no-job-at-all": (["Hello."], None, None),
    "completed": ([*HEAD, *steps(0, 999), *summary(0)], None, None),
}


@pytest.mark.parametrize(("lines", "job_state", "expected"), SILENCE.values(), ids=SILENCE)
def test_missing_logs_explain_a_job_where_no_line_does(
    lines: Sequence[str], job_state: str | None, expected: SilenceKind | None
) -> None:
    circumstances = Circumstances(at(LATE), job_state)
    found = assess(*section_of(lines, LATE, job_state or ""), the_rules(), circumstances)
    assert found.silence is expected
    assert found.cause is None or found.silence is None


@pytest.mark.parametrize(
    ("job_state", "expected"),
    [(None, None), ("", None), ("CANCELLED by 1000", "CANCELLED"), ("completed+", "COMPLETED"), (" ", None)],
)
def test_state_of_the_scheduler_is_its_first_word(job_state: str | None, expected: str | None) -> None:
    assert Circumstances(job_state=job_state).state == expected


BEFORE_TRAINING = {
    "pull": ("[ERROR] Pull failed for registry.example/jax-train:v7.", "container-pull-fail", "Docker pull"),
    "load": (
        "[ERROR] Unable to determine image name or ID from docker load output.",
        "container-load-fail",
        "Docker pull",
    ),
    "interface": (
        "NCCL FATAL gpu-a-12: Failed to auto-detect NCCL_SOCKET_IFNAME; ABORTING...",
        "nccl-nic-fail",
        "Container start",
    ),
    "branch": ("[FAIL] Failed to check out hotfix in the local maxtext repo.", "patch-branch-fail", "Container start"),
    "port": ("FATAL: Could not find a free port for JAX coordinator", "port-fail", "Job start"),
    "model": ("!!! Unknown model: llama9-70b (no configs/llama9-70b.gpu.yml).", "model-not-found", "Training start"),
    "ray": (RAY_FAILED, "ray-start-fail", "Ray init"),
    "preflight": (stage("Preflight TIMEOUT (900s/900s)"), "preflight-timeout", "Preflight"),
    "docker-pull": (stage("Docker pull TIMEOUT (900s/900s)"), "pull-timeout", "Docker pull"),
    "ecc": (stage("ECC check TIMEOUT (300s/300s)"), "ecc-timeout", "ECC check"),
}


@pytest.mark.parametrize(("line", "primary", "in_stage"), BEFORE_TRAINING.values(), ids=BEFORE_TRAINING)
def test_failures_before_training_name_their_stage(line: str, primary: str, in_stage: str) -> None:
    found = report_on([*header(), param("steps", 1000), line, *summary(1, "unknown")])
    assert (found.status, found.primary, found.stage) == ("failed", primary, in_stage)


def test_all_classes_of_a_cascade_are_reported() -> None:
    found = report_on([*AT_300, *OOM_LINES, node_exit(3, 1), stage("Training FAILED (exit=1, 40s)"), *FAILED])
    assert found.classes == ("node-fail", "oom-gpu", "stage-fail")
    assert [finding.failure_class for finding in found.findings] == ["oom-gpu", "node-fail", "stage-fail"]
    assert any(line.startswith("node-fail is explained by oom-gpu") for line in found.cascade)


def test_harmless_lines_are_never_mentioned() -> None:
    noise = [
        "E0302 09:00:01.100000 991 cuda_driver.cc:282] failed call to cuInit: UNKNOWN ERROR (303)",
        "gpu-a-12:771:900 [0] /src/init.cc:140 NCCL WARN MSCCL++: Feature not enabled. MSCCL++ kernels are off.",
        " 3: OCI runtime exec failed: exec failed: unable to start container process: unknown",
        "W0302 09:00:01.1 771 topology.cc:96] Cannot read CPU core 128",
        "srun: error: gpu-a-12: task 4: Exited with exit code 143",
    ]
    found = report_on([*AT_300, *noise], 1510)
    assert (found.classes, found.findings, found.evidence) == ((), (), ())
