"""Faults of the network and of storage: links, adapters, switches, file servers, drives."""

from __future__ import annotations

from typing import Final

from epicenter.ingest.simulate import kernel_host, reactions, torch_lines
from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.faults.case import TORCH, TORCHRUN, Case, FaultKind
from epicenter.ingest.simulate.faults.program import raises
from epicenter.ingest.simulate.headers import nccl_warn, spread
from epicenter.ingest.simulate.model import Job, ns

_NICS: Final = ("18", "3a", "4d", "5e", "9a", "b8", "cc", "dc")
"""PCI buses of the adapters next to the GPUs."""
_NFS_FRAMES: Final = (
    "rpc_wait_bit_killable+0x11/0x80 [sunrpc]",
    "nfs_wait_on_request+0x2b/0x40 [nfs]",
    "vfs_read+0xb5/0x350",
)


def _nic(gpu: int) -> tuple[str, str]:
    """PCI address and interface of the adapter next to a GPU."""
    return f"0000:{_NICS[gpu]}:00.0", f"ens{gpu + 1}f0np0"


def _link_down(cluster: Cluster, case: Case) -> Process:
    """A cable or transceiver: the node's kernel reports it, and its peers' requests fail after the retries."""
    device, interface = _nic(case.gpu)
    cluster.kernel(case.node, kernel_host.cable_error(device, cluster.now_ns))
    cluster.kernel(case.node, kernel_host.link_down(device, interface, cluster.now_ns + ns(0.2)))
    yield from _peers_lose_the_path(cluster, case)


def _link_flap(cluster: Cluster, case: Case) -> Process:
    """An InfiniBand port goes down and up again: only NCCL reports it, and requests under way fail."""
    node, rank = case.node, case.rank
    events = (("port error", 0.0), ("port active", 4.2))
    for event, after_s in events:
        text = f"NET/IB : mlx5_{case.gpu}:1 Got async error event: {event}"
        warning = nccl_warn(case.job, node, rank, "transport/net_ib.cc:104", text)
        reactions.emit(cluster, case.job, rank, spread(cluster.now_ns + ns(after_s), warning))
    yield from _peers_lose_the_path(cluster, case)


def _nic_fails(cluster: Cluster, case: Case) -> Process:
    cluster.kernel(case.node, kernel_host.nic_fails(_nic(case.gpu)[0], cluster.now_ns))
    yield from _peers_lose_the_path(cluster, case)


def _peers_lose_the_path(cluster: Cluster, case: Case) -> Process:
    """The rank and its neighbours on other nodes see status 12 after twenty seconds, the others wait."""
    job, place = case.job, case.place
    yield 18.0
    neighbours = sorted({(place + 1) % len(job.nodes), (place - 1) % len(job.nodes)} - {place})
    work_of = reactions.collective(cluster, job)
    offset = case.rank - job.ranks(place).start
    rng, hit = cluster.rng(f"path/{case.onset_ns}"), []
    for other, peer in [*((neighbour, place) for neighbour in neighbours), (place, neighbours[0])]:
        rank = job.ranks(other)[offset]
        at = cluster.now_ns + ns(rng.uniform(0.1, 3))
        lines = torch_lines.retry_exceeded(job, job.nodes[other], rank, at, job.nodes[peer], work_of(rank))
        reactions.emit(cluster, job, rank, lines)
        hit.append(rank)
    yield 5.0
    for rank in hit:
        reactions.node_agent_fails(cluster, job, rank, -6)
    exited = {rank for other in (place, *neighbours) for rank in job.ranks(other)}
    yield from reactions.rest_learns(cluster, job, place, exited, work_of)


def _switch_down(cluster: Cluster, case: Case) -> Process:
    """A leaf switch is off: every node behind it loses its links at once, and every job on them its peers."""
    rng, nodes = cluster.rng(f"fault/{case.onset_ns}"), (case.node, *case.others)
    for node in nodes:
        for gpu in range(cluster.scenario.gpus_per_node):
            at = cluster.now_ns + ns(rng.uniform(0.0, 1.5))
            cluster.kernel(node, sorted(kernel_host.link_down(*_nic(gpu), at), key=lambda timed: timed[0]))
    behind = {node.index for node in nodes}
    for job in cluster.jobs:
        places = [place for place, node in enumerate(job.nodes) if node.index in behind]
        if places and not job.is_over:
            job.is_stalled = True
            cluster.start(_job_behind_switch(cluster, job, places), rng.uniform(17, 20))
    yield 0.0


def _job_behind_switch(cluster: Cluster, job: Job, places: list[int]) -> Process:
    if job.framework == "maxtext":
        yield from reactions.heartbeats_are_missed(cluster, job, places[0], 85.0)
        return
    rng, work_of = cluster.rng(f"switch/{job.job_id}"), reactions.collective(cluster, job)
    for place in range(len(job.nodes)):
        peer = job.nodes[(place + 1) % len(job.nodes)]
        for rank in job.ranks(place):
            at = cluster.now_ns + ns(rng.uniform(0.1, 6))
            lines = torch_lines.retry_exceeded(job, job.nodes[place], rank, at, peer, work_of(rank))
            reactions.emit(cluster, job, rank, lines)
    yield 8.0
    yield from reactions.all_agents_fail(cluster, job)


def _file_server(cluster: Cluster, case: Case) -> Process:
    """The file server does not answer: every node reports it within a minute, and every job stalls until it does."""
    rng, server = cluster.rng(f"fault/{case.onset_ns}"), "10.0.240.7"
    nodes = (case.node, *case.others)
    for job in cluster.jobs:
        if not job.is_over and any(node.index in {other.index for other in nodes} for node in job.nodes):
            job.is_stalled = True
            cluster.start(reactions.peers_time_out(cluster, job, ()))
    for node in nodes:
        at = cluster.now_ns + ns(rng.uniform(0.0, 45.0))
        cluster.kernel(node, [(at, f"nfs: server {server} not responding, still trying")])
    yield 170.0
    for node in nodes[::2]:
        at = cluster.now_ns + ns(rng.uniform(0.0, 60.0))
        cluster.kernel(node, kernel_host.blocked("python3", rng.randrange(900_000, 990_000), at, list(_NFS_FRAMES)))
    yield 900.0
    for node in nodes:
        cluster.kernel(node, [(cluster.now_ns + ns(rng.uniform(0.0, 9.0)), f"nfs: server {server} OK")])


def _drive(cluster: Cluster, case: Case) -> Process:
    """The node's scratch drive dies: its file system goes read-only, and the rank that writes there raises."""
    cluster.kernel(case.node, kernel_host.nvme_dies(cluster.now_ns))
    yield 43.0
    path = f"/scratch/job_{case.job.job_id}/shard_{case.rank}.bin"
    yield from raises(cluster, case, [f"OSError: [Errno 30] Read-only file system: '{path}'"])


KINDS: Final = (
    FaultKind("link-down", "nic-link-down", _link_down, ("mlx5-module-error", "rdma-transport-fail",
        "nccl-net-ib-error"), 3.4, names=("node",), frameworks=TORCHRUN),
    FaultKind("ib-link-flap", "ib-link-down", _link_flap, ("nccl-net-ib-error", "rdma-transport-fail"), 3.0,
        names=("node",), frameworks=TORCHRUN),
    FaultKind("nic-firmware", "mlx5-health-error", _nic_fails, ("nccl-net-ib-error", "rdma-transport-fail"), 1.7,
        names=("node",), frameworks=TORCHRUN),
    FaultKind("switch-down", "nic-link-down", _switch_down, ("ib-link-down", "nccl-net-ib-error",
        "rdma-transport-fail"), 2.0, "switch", ()),
    FaultKind("file-server", "nfs-server-not-responding", _file_server, ("storage-timeout",), 1.5, "storage", (),
        frameworks=TORCH, lasts_s=1500),
    FaultKind("drive-dies", "nvme-timeout", _drive, ("nvme-io-error", "block-io-error", "ext4-error",
        "fs-readonly"), 0.7),
)  # fmt: skip
