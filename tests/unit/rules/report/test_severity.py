"""The severity of an incident: it follows its worst signal, unless nothing failed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import SERVING, Advanced, Heartbeat, NodeCount, PhaseBegan, WorldSize
from epicenter.rules.model.records import Match
from tests.support.logs import a_scanner, at, batch, the_rules, vector
from tests.support.signals import a_match, a_step, a_timeout, alive, an_xid


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


A_ON_N1, B_ON_N2 = alive(0, "A", "n1"), alive(0, "B", "n2")
UNCAUGHT = a_match("python.exception_line", 100, "n1", "A", "[rank0]: ValueError: no batch")
EVICTION = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 51200Ki. "
EVICTED = a_match("k8s.evicted", 100, "n1", "A", EVICTION, source="kubernetes", pod="train-A")

BACK_OFF = "Back-off restarting failed container main in pod train-A_tools(c97a9c4d-9656-8a77-7221-6b4692322d29)"
CRASHES = a_match("k8s.crashloop", 100, "n1", "A", BACK_OFF, source="kubernetes", pod="train-A")


def severities(matches: Iterable[Match], *heartbeats: Heartbeat) -> list[str]:
    engine = Engine(the_rules())
    engine.add(matches, heartbeats)
    newest = {incident.incident_id: incident for incident in [*engine.advance(at(130)), *engine.flush()]}
    return [incident.severity for incident in newest.values()]


OF_A_PROGRAM = [
    pytest.param(UNCAUGHT, id="exception"),
    pytest.param(a_match("memory.oom_gpu", 100, "n1", "A"), id="gpu-memory"),
    pytest.param(a_match("cuda.illegal_access", 100, "n1", "A"), id="cuda"),
    pytest.param(a_match("signals.sigkill", 100, "n1", "A", "run.sh: line 3: 4242 Killed  python eval.py"), id="kill"),
    pytest.param(EVICTED, id="evicted-pod"),
    pytest.param(CRASHES, id="crashing-pod"),
]


@pytest.mark.parametrize("failure", OF_A_PROGRAM)
def test_the_end_of_the_only_program_pages(failure: Match) -> None:
    assert severities([failure], A_ON_N1) == ["error"]


@pytest.mark.parametrize("failure", OF_A_PROGRAM)
def test_the_end_of_a_single_program_is_a_warning_where_another_job_is_known(failure: Match) -> None:
    assert severities([failure], A_ON_N1, B_ON_N2) == ["warning"]


def test_a_job_of_the_same_name_in_another_cluster_does_not_hide_that_two_are_known() -> None:
    nowhere = [a_step(4, 90, "B", "", "other"), a_step(4, 90, "B", ""), a_step(4, 90, "C", "")]
    assert severities([UNCAUGHT], *nowhere) == ["warning"]


@pytest.mark.parametrize("failure", OF_A_PROGRAM)
def test_the_end_of_a_program_that_trained_pages_although_another_job_is_known(failure: Match) -> None:
    assert severities([failure], A_ON_N1, B_ON_N2, a_step(4, 90)) == ["error"]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param([a_step(4, 90)], "error", id="step"),
        pytest.param([PhaseBegan(at(90), "default", "A", "n1", SERVING)], "error", id="serving"),
        pytest.param([PhaseBegan(at(90), "default", "A", "n1", "startup")], "warning", id="another-phase"),
        pytest.param([alive(1, "A", "n3")], "error", id="second-node"),
        pytest.param([NodeCount(at(1), "default", "A", "n1", nodes=2)], "error", id="two-nodes"),
        pytest.param([NodeCount(at(1), "default", "A", "n1", nodes=1)], "warning", id="one-node"),
        pytest.param([WorldSize(at(1), "default", "A", "n1", 8)], "error", id="eight-ranks"),
        pytest.param([WorldSize(at(1), "default", "A", "n1", 1)], "warning", id="one-rank"),
        pytest.param([a_step(4, 90, "B", "n2")], "warning", id="steps-of-the-other"),
        pytest.param(
            [Advanced(at(second), "default", "A", "n1") for second in range(98)], "warning", id="bars-that-advance"
        ),
        pytest.param(
            [Advanced(at(second), "default", "A", "n1") for second in range(-20, 98)], "error", id="bars-of-training"
        ),
    ],
)
def test_what_ends_a_job_that_trains_or_serves_or_has_several_places_pages(
    shown: list[Heartbeat], expected: str
) -> None:
    assert severities([UNCAUGHT], A_ON_N1, B_ON_N2, *shown) == [expected]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param(a_match("cuda.ecc", 100, "n1", "A"), "critical", id="gpu-memory-errors"),
        pytest.param(a_match("disk.full_text", 100, "n1", "A"), "error", id="full-disk"),
        pytest.param(a_match("storage.io_error", 100, "n1", "A"), "error", id="storage"),
        pytest.param(an_xid(79, 100, "n1", source="kernel"), "critical", id="broken-gpu"),
        pytest.param(a_timeout(100, "n1", "A", 0, waited_s=60), "error", id="rank-that-waits"),
    ],
)
def test_a_failure_of_a_device_or_of_a_job_pages_although_only_a_program_is_known(
    failure: Match, expected: str
) -> None:
    assert severities([failure], A_ON_N1, B_ON_N2) == [expected]


def test_an_image_that_a_single_pod_does_not_get_pages_where_another_job_is_known() -> None:
    text = 'Failed to pull image "registry.local/llm:1": rpc error: code = Unavailable desc = connection refused'
    failed = a_match("k8s.image_pull", 100, "n1", "A", text, source="kubernetes", pod="train-A")
    assert severities([failed], A_ON_N1, B_ON_N2) == ["error"]


def test_bars_that_stop_page_where_another_job_is_known() -> None:
    engine = Engine(the_rules())
    engine.add([], [A_ON_N1, B_ON_N2, *(Advanced(at(second), "default", "A", "n1") for second in range(50))])
    assert [(incident.failure_class, incident.severity) for incident in engine.advance(at(2000))] == [("hang", "error")]


def found_in(*lines: str) -> list[Match]:
    """What the rules find in lines that job A prints."""
    values = [vector("n1", 100 + number / 1000, line, "A") for number, line in enumerate(lines)]
    return a_scanner().scan(batch(values)).matches


def traceback(*frames: str) -> list[Match]:
    return found_in("Traceback (most recent call last):", *frames, "ValueError: no batch", "next")


@pytest.mark.parametrize(
    ("matches", "expected"),
    [
        pytest.param(traceback('  File "<stdin>", line 1, in <module>'), "warning", id="python"),
        pytest.param(traceback('  File "<python-input-3>", line 1, in <module>'), "warning", id="python-3.13"),
        pytest.param(
            traceback('  File "<ipython-input-3-9e1622b385b6>", line 1, in <module>', "    main()"),
            "warning",
            id="ipython",
        ),
        pytest.param(
            traceback('  File "/tmp/ipykernel_4242/1234567.py", line 3, in <module>', "    main()"),
            "warning",
            id="notebook",
        ),
        pytest.param(traceback("  Cell In[3], line 1", "    main()"), "warning", id="cell"),
        pytest.param(traceback('  File "/w/train.py", line 9, in <module>', "    main()"), "error", id="program"),
        pytest.param(
            traceback('  File "/tmp/run_4242/eval.py", line 9, in <module>', "    main()"), "error", id="temporary-file"
        ),
        pytest.param(found_in("[1]+  Killed                  python eval.py"), "warning", id="job-of-a-shell"),
        pytest.param(
            found_in("run.sh: line 3:  4242 Killed                  python eval.py"), "error", id="script-of-a-shell"
        ),
    ],
)
def test_what_a_person_typed_at_a_prompt_pages_for_no_job(matches: list[Match], expected: str) -> None:
    assert severities(matches, A_ON_N1) == [expected]
    assert severities(matches, A_ON_N1, a_step(4, 90)) == [expected]


XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."


def test_a_kernel_s_text_in_a_job_s_log_pages_for_no_job() -> None:
    assert severities(found_in(XID), A_ON_N1, a_step(4, 90)) == ["warning"]


def test_a_kernel_s_text_in_a_job_s_log_does_not_hide_that_the_job_failed() -> None:
    failed = a_match("elastic.first_failure", 101, "n1", "A")
    assert severities([*found_in(XID), failed], A_ON_N1, a_step(4, 90)) == ["critical"]
