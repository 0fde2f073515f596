"""The order of causes follows one clock, where banners or timeouts show how far a node's clock is ahead."""

from __future__ import annotations

import pytest

from epicenter.rules.model.incident import Incident
from epicenter.stream.local.pipeline import Pipeline
from tests.support.logs import batch, kernel, the_rules, vector

INIT = (
    "{node}:991:1203 [3] NCCL INFO ncclCommInitRank comm 0x55d00003a9c0 rank {rank} nranks {ranks} cudaDev 3 nvmlDev 3 "
    "busId 61000 commId 0xb886029f29f1a815 - Init COMPLETE"
)
OFF_BUS = "NVRM: Xid (PCI:0000:61:00): 79, pid=4123, name=python, GPU has fallen off the bus."
TIMEOUT = (
    "[rank{rank}]:[E302 09:12:44.001245877 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=412, OpType=ALLREDUCE, NumelIn=2048, NumelOut=2048, Timeout(ms)=600000) ran "
    "for 600021 milliseconds before timing out."
)
AHEAD_S = 40.0


def banners(nodes: int, ahead: int) -> list[bytes]:
    return [
        vector(f"n{n}", 5 + AHEAD_S * (n == ahead), INIT.format(node=f"n{n}", rank=n, ranks=nodes), "A")
        for n in range(nodes)
    ]


def timeouts(nodes: int, ahead: int) -> list[bytes]:
    return [vector(f"n{n}", 1300 + AHEAD_S * (n == ahead), TIMEOUT.format(rank=n), "A") for n in range(nodes)]


def root(lines: list[bytes]) -> str:
    pipeline = Pipeline(the_rules(), "default", 0)
    pipeline.process(batch(lines))
    pipeline.rest()
    found: dict[str, Incident] = {incident.incident_id: incident for incident in pipeline.flush()}
    (incident,) = [incident for incident in found.values() if not incident.merged_into]
    return incident.root_cause.node


@pytest.mark.parametrize("nodes", [4, 16, 128])
def test_of_two_equal_failures_the_first_by_one_clock_is_the_root(nodes: int) -> None:
    """The first Xid is on the node whose clock is ahead, so that its line has the later time."""
    failures = [kernel("n1", 690 + AHEAD_S, OFF_BUS), kernel("n2", 700, OFF_BUS)]
    assert root([*banners(nodes, 1), *failures, *timeouts(nodes, 1)]) == "n1"
    assert root([*failures, *timeouts(nodes, 1)]) == "n1"
    assert root([*banners(nodes, -1), *failures, *timeouts(nodes, -1)]) == "n2"
