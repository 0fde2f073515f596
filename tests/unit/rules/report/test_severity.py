"""The severity of an incident: it follows its worst signal, unless nothing failed."""

from __future__ import annotations

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.records import Match
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, alive


def severity(*matches: Match, nodes: tuple[str, ...] = ("n1", "n2")) -> str:
    engine = Engine(the_rules())
    engine.add(matches, [alive(0, "A", node) for node in nodes])
    return engine.advance(at(2000))[0].severity


def test_a_preemption_by_the_scheduler_is_a_warning() -> None:
    assert severity(a_match("slurm.preempted", 100, "n1", "A")) == "warning"


def test_a_preemption_stays_a_warning_when_the_job_s_ranks_lose_their_peers() -> None:
    lost = a_match("nccl.peer_gone", 102, "n2", "A")
    assert severity(a_match("slurm.preempted", 100, "n1", "A"), lost) == "warning"


def test_a_lost_node_is_critical() -> None:
    assert severity(a_match("slurm.node_fail", 100, "n1", "A")) == "critical"


LINK_DOWN = a_match("nic.link_down", 100, "n1", source="kernel")
LOST_CARRIER = a_match("ib.link_down", 100, "n1", text="ibp28s0: Lost carrier", source="")
FAULT = a_match("nvidia.xid_31", 100, "n1", source="kernel", fields={"comm": "python3", "pid": "41220"})
FAILURE = a_match("elastic.first_failure", 102, "n1", "A")
WORKER_S_LINK = a_match("ib.link_down", 100, "n1", "A", text="mlx5_4 port 1 down since 2026-03-02T09:00:05Z")


@pytest.mark.parametrize(
    ("matches", "expected"),
    [
        pytest.param([LINK_DOWN], "warning", id="link-down"),
        pytest.param([LOST_CARRIER], "warning", id="link-that-networkd-reports"),
        pytest.param([FAULT], "warning", id="fault-of-one-process"),
        pytest.param([LINK_DOWN, FAILURE], "error", id="link-down-and-failure"),
        pytest.param([LOST_CARRIER, FAILURE], "error", id="link-that-networkd-reports-and-failure"),
        pytest.param([WORKER_S_LINK], "error", id="link-that-the-job-reports"),
        pytest.param([a_match("nvidia.xid_79", 100, "n1")], "critical", id="broken-gpu"),
    ],
)
def test_recoverable_errors_of_a_node_are_a_warning_until_a_job_fails(matches: list[Match], expected: str) -> None:
    assert severity(*matches) == expected


ENDS = ["slurm.time_limit", "slurm.cancelled", "elastic.told_to_stop", "slurm.preempted", "capacity.preemption_notice"]


@pytest.mark.parametrize("rule", ENDS)
def test_an_end_that_was_intended_makes_no_page_of_a_warning(rule: str) -> None:
    ended = a_match(rule, 102, "n1", "A", text=f"job A ended: {rule}")
    assert severity(LINK_DOWN, ended) == "warning"


@pytest.mark.parametrize(("nodes", "expected"), [(("n2",), "warning"), (("n1", "n2"), "error")], ids=["no-job", "job"])
def test_a_node_that_boots_is_a_warning_unless_a_job_runs_there(nodes: tuple[str, ...], expected: str) -> None:
    text = "Node n1 has been rebooted, boot id: 1c2d3e4f-0000-4a5b-8c9d-112233445566"
    booted = a_match("k8s.rebooted", 100, "n1", text=text, source="kubernetes")
    assert severity(booted, nodes=nodes) == expected
