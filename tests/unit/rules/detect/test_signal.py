"""What a line is about: job, node, rank and GPU."""

from __future__ import annotations

import pytest

from epicenter.rules.detect.signal import pci_address
from tests.support.signals import signals_of

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


def test_a_pci_address_is_one_key_however_it_is_written() -> None:
    assert {pci_address(text) for text in ("0000:3B:00.0", "3b:00", "00000000:3b:00.0")} == {"0000:3b:00"}
