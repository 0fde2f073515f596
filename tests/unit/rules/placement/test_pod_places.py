"""In Kubernetes a program calls its pod the host: names and addresses of pods lead to nodes, indices to no ranks."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from epicenter.ingest.simulate.envelopes import fluent_bit_pod_record, vector_pod_record
from epicenter.rules.engine import Engine
from epicenter.rules.model.records import RankPlacement
from epicenter.rules.placement.completion import completed
from epicenter.rules.placement.placement import Placement
from tests.support.logs import a_scanner, at, batch, iso, the_rules
from tests.support.signals import a_match, a_signal, an_xid

POD, ADDRESS = "run7-workers-0-1-x7k2p", "10.244.3.17"


def nccl(rank: int, ranks: int = 16, bus: str = "9a000", pod: str = POD) -> str:
    """The line of NCCL 2.20 and later, which begins with the name of the host: in a pod that of the pod."""
    who = f"ncclCommInitRank comm 0x55d00003a9c0 rank {rank} nranks {ranks} cudaDev 2 nvmlDev 2"
    return f"{pod}:101:101 [2] NCCL INFO {who} busId {bus} commId 0xb886029f29f1a815 - Init COMPLETE"


def shipped(second: float, text: str, node: str = "n3", pod: str = POD, address: str = ADDRESS, **labels: str) -> bytes:
    """A line of a pod as Vector ships it."""
    job = {"training.kubeflow.org/job-name": "run7"}
    about = {"pod_name": pod, "pod_node_name": node, "pod_ip": address, "pod_labels": job | labels}
    return orjson.dumps(vector_pod_record(about, iso(second), "stdout", text))


def by_fluent_bit(second: float, text: str) -> bytes:
    """The same as Fluent Bit ships it."""
    labels = {"training.kubeflow.org/job-name": "run7"}
    about = {"pod_name": POD, "host": "n3", "pod_ip": ADDRESS, "labels": labels}
    return orjson.dumps(fluent_bit_pod_record(about, iso(second), "stdout", text))


def index(number: int) -> dict[str, str]:
    return {"batch.kubernetes.io/job-completion-index": str(number)}


def rank_placements(*lines: bytes) -> list[RankPlacement]:
    return a_scanner().scan(batch(lines)).rank_placements


def placed(*lines: bytes) -> Placement:
    placement = Placement()
    for rank_placement in rank_placements(*lines):
        placement.record(rank_placement)
    return placement


@pytest.mark.parametrize("line", [shipped(0, "loading"), by_fluent_bit(0, "loading")], ids=["vector", "fluent-bit"])
@pytest.mark.parametrize(
    "peer", [POD, ADDRESS, f"{ADDRESS}:43210", f"{POD}.run7.ml.svc.cluster.local"], ids=["name", "ip", "port", "domain"]
)
def test_a_peer_that_a_line_calls_by_its_pod_is_the_node_of_the_pod(line: bytes, peer: str) -> None:
    lost = a_signal("connection-reset", 5, "n1", "run7", fields={"peer": peer})
    assert completed(lost, placed(line)).fields.get("peer_node") == "n3"


@pytest.mark.parametrize("more", [{"node": ""}, {"address": ""}, {"pod": ""}], ids=str)
def test_an_address_without_its_pod_or_node_names_none(more: dict[str, str]) -> None:
    assert not [found for found in rank_placements(shipped(0, "loading", **more)) if found.address]


def test_a_rank_whose_banner_calls_the_pod_its_host_is_on_the_node_of_the_pod() -> None:
    placement = placed(shipped(0, "loading"), shipped(1, nccl(10)))
    assert placement.node_of("default", "run7", 10, at(2)) == "n3"
    assert placement.rank_of("default", "run7", "n3", at(2), gpu="0000:9a:00") == 10


def test_the_engine_knows_the_node_of_a_rank_whose_banner_calls_the_pod_its_host() -> None:
    engine = Engine(the_rules())
    scanned = a_scanner().scan(batch([shipped(0, "loading"), shipped(1, nccl(10))]))
    broken = [an_xid(79, 600, "n3"), a_match("elastic.first_failure", 602, "", "run7", rank=10)]
    engine.add(broken, scanned.heartbeats, scanned.rank_placements)
    (incident,) = engine.flush()
    assert (incident.root_cause.node, incident.root_cause.rank, incident.nodes) == ("n3", 10, ("n3",))


@pytest.mark.parametrize("node", ["n3", "worker-3"], ids=["node-sorts-before-pod", "node-sorts-after-pod"])
@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(["loading", nccl(10)], id="line-and-banner"),
        pytest.param([nccl(10), "loading"], id="banner-and-line"),
        pytest.param([nccl(10)], id="banner-alone"),
    ],
)
def test_a_pod_that_a_banner_calls_its_host_is_no_node_of_the_job(texts: list[str], node: str) -> None:
    engine = Engine(the_rules())
    scanned = a_scanner().scan(batch([shipped(second, text, node) for second, text in enumerate(texts)]))
    engine.add([], scanned.heartbeats, scanned.rank_placements)
    engine.advance(at(5))
    assert [engine.jobs_of(an_xid(79, 4, name)) for name in (node, POD)] == [{"run7"}, set()]


@pytest.mark.parametrize(
    ("banners", "rank"),
    [
        pytest.param([nccl(10)], 10, id="several-gpus-a-pod"),
        pytest.param([nccl(10), nccl(0, ranks=2)], 10, id="a-smaller-communicator-after-it"),
        pytest.param([nccl(0, ranks=2), nccl(10)], 10, id="a-smaller-communicator-before-it"),
        pytest.param([nccl(1)], 1, id="the-index-itself"),
    ],
)
def test_the_rank_of_a_pod_with_an_index_is_that_of_the_whole_job(banners: list[str], rank: int) -> None:
    lines = [shipped(second, banner, **index(1)) for second, banner in enumerate(banners)]
    assert placed(*lines).rank_of("default", "run7", "n3", at(9), gpu="0000:9a:00") == rank


def test_a_smaller_communicator_outside_pods_does_not_replace_a_rank() -> None:
    lines: list[dict[str, Any]] = [
        {"timestamp": iso(second), "host": "n3", "job": "run7", "rank": 10, "message": nccl(rank, ranks, pod="n3")}
        for second, (rank, ranks) in enumerate([(0, 2), (10, 16)])
    ]
    placement = placed(*map(orjson.dumps, lines))
    assert placement.nodes_by_rank("default", "run7", at(9)) == {10: "n3"}


def test_a_pod_that_moves_names_its_newest_node() -> None:
    placement = placed(shipped(0, "loading"), shipped(900, "loading", node="n4"))
    lost = a_signal("connection-reset", 950, "n1", "run7", fields={"peer": POD})
    assert completed(lost, placement).fields.get("peer_node") == "n4"
