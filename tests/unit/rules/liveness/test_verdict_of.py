"""Which verdict an incident has by the lines of its cause's node."""

from __future__ import annotations

import pytest

from epicenter.rules.liveness.verdict import verdict_of
from epicenter.rules.model.signals import Signal
from tests.support.signals import a_signal

CAUSE = a_signal("edac-ue", 5, "n1", source="kernel")


@pytest.mark.parametrize(
    ("also", "verdict"),
    [
        pytest.param(a_signal("kernel-panic", 6, "n1", source="kernel"), "node-dead", id="its-node-panics"),
        pytest.param(a_signal("kernel-panic", 6, "n2", source="kernel"), "", id="another-node-panics"),
        pytest.param(
            a_signal("mce-uncorrected", 6, "n1", source="kernel", fields={"pid": "7"}), "rank-dead", id="process-killed"
        ),
        pytest.param(a_signal("mce-uncorrected", 6, "n1", source="kernel"), "", id="page-recovered"),
        pytest.param(a_signal("sigbus", 6, "n1", "A"), "rank-dead", id="bus-error"),
        pytest.param(a_signal("k8s-image-pull", 6, "n1", "A"), "never-started", id="no-image"),
        pytest.param(a_signal("nccl-timeout", 605, "n2", "A"), "hung", id="a-watchdog-s-timeout"),
    ],
)
def test_a_cause_that_ends_or_prevents_something_on_its_node_has_that_verdict(also: Signal, verdict: str) -> None:
    assert verdict_of([CAUSE, also]) == verdict


@pytest.mark.parametrize(
    ("cause", "verdict"),
    [
        (a_signal("slurm-node-fail", 5, "n1", "A", rule="slurm.launch_failed_node"), "never-started"),
        (a_signal("slurm-node-fail", 5, "n1", "A", rule="slurm.node_fail"), "node-dead"),
        (a_signal("k8s-image-pull", 5, "n1", "A"), "never-started"),
        (a_signal("slurm-time-limit", 5, "", "A"), "cancelled"),
    ],
    ids=["launch", "node", "image", "limit"],
)
def test_a_cause_implies_how_its_job_ended(cause: Signal, verdict: str) -> None:
    assert verdict_of([cause]) == verdict
