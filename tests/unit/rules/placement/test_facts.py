"""What all nodes of a job print alike, and which node differs."""

from __future__ import annotations

import pytest

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.outlier import Outlier
from epicenter.rules.placement.facts import (
    MAX_KEPT_FACTS,
    MAX_KEPT_FAILURES,
    MAX_KEPT_JOBS,
    MAX_KEPT_OF_A_NODE,
    NodeFacts,
)
from epicenter.stream.local.pipeline import Pipeline
from tests.support.logs import batch, kernel, the_rules, vector
from tests.support.signals import a_signal

STEP = (
    " [2026-03-02 09:00:00.000000] iteration {:8d}/  500000 | consumed samples:  256 | "
    "elapsed time per iteration (ms): 5000.1 | learning rate: 1.000000E-05 | global batch size:   256 | "
    "lm loss: 2.301200E+00 | grad norm: 1.213 |"
)


def named(number: int) -> str:
    return f"n{number:03}"


def facts_of(values: dict[str, str], job: str = "A") -> NodeFacts:
    facts = NodeFacts()
    for node, value in values.items():
        facts.record(a_signal("job-fact", 0, node, job, fields={"network": value}), {"network": "NCCL network"})
    return facts


@pytest.mark.parametrize("nodes", [3, 16, 128, 512])
@pytest.mark.parametrize("job", ["A", ""])
def test_the_node_that_differs_from_all_others_is_an_outlier(nodes: int, job: str) -> None:
    facts = facts_of({named(n): "Socket" if n == 1 else "IB" for n in range(nodes)}, job)
    (outlier,) = facts.outliers("default", "A", list(map(named, range(nodes))))
    assert outlier == Outlier(named(1), "NCCL network", "Socket", "IB", nodes - 1)
    assert str(outlier) == f"NCCL network Socket, where {nodes - 1} other nodes have IB"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(("IB", "Socket"), id="of-two-nodes"),
        pytest.param(("IB",) * 16, id="all-alike"),
        pytest.param(("IB",) * 10 + ("Socket",) * 6, id="no-clear-majority"),
        pytest.param(tuple(map(str, range(16))), id="each-another"),
    ],
)
def test_no_node_is_an_outlier_without_a_clear_majority(values: tuple[str, ...]) -> None:
    facts = facts_of({named(n): value for n, value in enumerate(values)})
    assert facts.outliers("default", "A", list(map(named, range(16)))) == ()


def test_nodes_of_other_jobs_are_not_compared() -> None:
    facts = facts_of({named(n): "Socket" if n == 1 else "IB" for n in range(16)}, job="")
    assert facts.outliers("default", "A", [named(0), named(2), named(3)]) == ()


def test_jobs_and_facts_are_bounded() -> None:
    facts = NodeFacts()
    for number in range(MAX_KEPT_JOBS + 5):
        facts.record(a_signal("job-fact", 0, "n1", f"{number}", fields={"network": "IB"}), {"network": "network"})
    for number in range(MAX_KEPT_FACTS + 5):
        signal = a_signal("job-fact", 0, "n1", "A", fields={"setting": "1", "variable": f"V{number}"})
        facts.record(signal, {"setting": "{variable}"})
    assert (len(facts.by_job), len(facts.by_job["default/A"])) == (MAX_KEPT_JOBS, MAX_KEPT_FACTS)


NCCL = "n001:881:990 [0] NCCL INFO "


def stalled(nodes: int, printed: dict[int, str], usual: str = f"{NCCL}Using network IB") -> Incident:
    """A job that stops after 200 steps; each node prints a line at the start."""
    lines = [vector(named(n), 1, printed.get(n, usual), "A") for n in range(nodes)]
    lines += [vector(named(nodes - 1), 10 + 5 * n, STEP.format(n + 1), "A") for n in range(200)]
    lines += [vector(named(0), 3000, "[Rank 0] memory (MB) | allocated: 21000.5 |", "A")]
    pipeline = Pipeline(the_rules(), "default", 0)
    pipeline.process(batch(lines))
    pipeline.rest()
    newest = {incident.incident_id: incident for incident in pipeline.flush()}
    (found,) = newest.values()
    return found


@pytest.mark.parametrize("nodes", [3, 16, 128])
def test_a_hang_without_a_known_culprit_has_the_outlier_of(nodes: int) -> None:
    found = stalled(nodes, {1: f"{NCCL}Using network Socket"})
    assert (found.failure_class, found.root_cause.node) == ("hang", named(1))
    difference = f"NCCL network Socket, where {nodes - 1} other nodes have IB"
    assert f"only {named(1)} has {difference}" in found.root_cause.reasons
    assert f"{named(1)}: {difference}" in [check.answer for check in found.checks]


def test_a_hang_where_all_nodes_are_alike_has_no_node() -> None:
    found = stalled(16, {})
    assert (found.failure_class, found.root_cause.node) == ("hang", "")


@pytest.mark.parametrize(
    ("usual", "other", "fact"),
    [
        pytest.param(
            f"{NCCL}NCCL version 2.27.3+cuda12.9", f"{NCCL}NCCL version 2.21.5+cuda12.4", "NCCL version", id="nccl"
        ),
        pytest.param(
            f"{NCCL}cudaDriverVersion 12090", f"{NCCL}cudaDriverVersion 12040", "CUDA driver version", id="cuda"
        ),
        pytest.param(
            f"{NCCL}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.3.0.7<0>",
            f"{NCCL}NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.3.0.8<0>",
            "InfiniBand adapters",
            id="adapters",
        ),
        pytest.param(
            f"{NCCL}NCCL_IB_HCA set by environment to mlx5_0,mlx5_1.",
            f"{NCCL}NCCL_IB_HCA set by environment to mlx5_0.",
            "NCCL_IB_HCA",
            id="setting",
        ),
        pytest.param("PyTorch version: 2.4.0+cu124", "PyTorch version: 2.3.1+cu121", "PyTorch version", id="torch"),
        pytest.param("num_gpus = 8", "num_gpus = 7", "number of GPUs", id="devices"),
    ],
)
def test_what_the_nodes_print_is_compared(usual: str, other: str, fact: str) -> None:
    found = stalled(8, {3: other}, usual)
    assert found.root_cause.node == named(3)
    assert any(reason.startswith(f"only {named(3)} has {fact} ") for reason in found.root_cause.reasons)


UNKNOWN = "xyzfab 0000:9a:00.0: DMA ring 3 is stuck (csr 0x0b77), device disabled"
LAST_STEP_S = 10 + 5 * 199


@pytest.mark.parametrize(
    ("failed_s_by_node", "node"),
    [
        pytest.param({3: LAST_STEP_S + 1}, named(3), id="one-node"),
        pytest.param({3: LAST_STEP_S + 1, 5: LAST_STEP_S + 2}, "", id="two-nodes"),
        pytest.param({3: LAST_STEP_S - 60}, "", id="long-before"),
        pytest.param({3: LAST_STEP_S + 60}, "", id="long-after"),
        pytest.param({20: LAST_STEP_S + 1}, "", id="node-of-another-job"),
    ],
)
def test_a_hang_is_of_the_only_node_whose_driver_reports_a_failure_then(
    failed_s_by_node: dict[int, float], node: str
) -> None:
    nodes = range(8)
    texts = [(second, kernel(named(n), second, UNKNOWN)) for n, second in failed_s_by_node.items()]
    texts += [(second, kernel(named(n), second, "eth0: link ok")) for n in nodes for second in (0, 900, 3000)]
    texts += [(1, vector(named(n), 1, "world size 8", "A")) for n in nodes]
    texts += [(second, vector(named(20), second, "batch done", "B")) for second in (1, 3000)]
    texts += [(10 + 5 * n, vector(named(0), 10 + 5 * n, STEP.format(n + 1), "A")) for n in range(200)]
    pipeline = Pipeline(the_rules(), "default", 0)
    pipeline.process(batch([text for _, text in sorted(texts)]))
    pipeline.rest()
    (found,) = {incident.incident_id: incident for incident in pipeline.flush()}.values()
    assert (found.failure_class, found.root_cause.node) == ("hang", node)
    assert any(UNKNOWN in reason for reason in found.root_cause.reasons) is bool(node)


def test_a_failure_without_a_node_is_of_none() -> None:
    facts = NodeFacts()
    facts.record_failure(a_signal("job-fact", 0, ""))
    assert facts.failures == {}


def test_unknown_failures_are_bounded() -> None:
    facts = NodeFacts()
    for number in range(MAX_KEPT_FAILURES + 5):
        facts.record_failure(a_signal("job-fact", 0, f"n{number}"))
    for second in range(MAX_KEPT_OF_A_NODE + 5):
        facts.record_failure(a_signal("job-fact", second, "n7"))
    assert (len(facts.failures), len(facts.failures["default/n7"])) == (MAX_KEPT_FAILURES, MAX_KEPT_OF_A_NODE)
