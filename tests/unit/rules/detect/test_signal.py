"""What a line is about: job, node, rank and GPU."""

from __future__ import annotations

import pytest

from epicenter.rules.detect.signal import pci_address, signal_of
from tests.support.logs import the_rules
from tests.support.signals import a_match, signals_of

REQUEUED = "[2026-03-02T09:00:00.120] preempted JobId=7877 has been requeued to reclaim resources for JobId=7901"
KILLED = "[2026-03-02T09:00:00.120] Killing JobId=7877 on failed node n7"
CANCELLED = "slurmstepd: error: *** STEP 7877.0 ON n7 CANCELLED AT 2026-03-02T09:00:00 DUE TO PREEMPTION ***"
LIMIT = "salloc: Job 7877 has exceeded its time limit and its allocation has been revoked."
LAUNCH = "srun: error: Application launch failed: Communication connection failure"
LAUNCH_ON_NODE = "srun: error: Task launch for StepId=7877.0 failed on node n7: Communication connection failure"
OOM = "slurmstepd: error: Detected 1 oom_kill event in StepId=7877.0. Some of the step tasks have been OOM Killed."


@pytest.mark.parametrize(
    ("text", "source", "node"),
    [
        (REQUEUED, "slurmctld", ""),
        (REQUEUED, "file", ""),
        (KILLED, "slurmctld", "n7"),
        (CANCELLED, "kubernetes_logs", "n7"),
        (LIMIT, "kubernetes_logs", ""),
        (OOM, "kubernetes_logs", "host"),
        (LAUNCH, "kubernetes_logs", ""),
        (LAUNCH_ON_NODE, "kubernetes_logs", "n7"),
    ],
)
def test_a_scheduler_s_line_is_about_the_node_it_names_not_the_scheduler_s_host(
    text: str, source: str, node: str
) -> None:
    (signal,) = signals_of(text, node="host", source_type=source)
    assert signal.node == node


@pytest.mark.parametrize(
    ("rule", "fields", "pod", "expected"),
    [
        pytest.param("k8s.container_stopped", {"pod": "train-0"}, "operator-7d9c5", "", id="names-a-pod"),
        pytest.param("k8s.container_stopped", {"pod": "train-0"}, "", "", id="of-a-file-without-a-pod"),
        pytest.param("progress.job_completed", {"job": "train"}, "operator-7d9c5", "train", id="names-a-job"),
        pytest.param("python.exception_line", {"pod": "ml/train-0"}, "train-0", "own", id="names-itself"),
        pytest.param("slurm.task_exit_1", {"job": "7877"}, "", "own", id="no-controller-of-kubernetes"),
    ],
)
def test_an_operator_s_line_is_about_the_pod_or_job_it_names(
    rule: str, fields: dict[str, str], pod: str, expected: str
) -> None:
    signal = signal_of(the_rules(), a_match(rule, 9, "host", "own", fields=fields, pod=pod, source="worker"))
    assert (signal.job, signal.node) == (expected, "host" if expected == "own" else "")


def test_a_pci_address_is_one_key_however_it_is_written() -> None:
    assert {pci_address(text) for text in ("0000:3B:00.0", "3b:00", "00000000:3b:00.0")} == {"0000:3b:00"}
