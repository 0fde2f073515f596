"""Faults whose first line no rule knows: a new driver, an unknown library. Only what follows shows where."""

from __future__ import annotations

from epicenter.ingest.simulate import reactions
from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.faults.case import TORCH, TORCHRUN, Case, FaultKind
from epicenter.ingest.simulate.headers import spread


def _unknown_driver(cluster: Cluster, case: Case) -> Process:
    """A driver reports that its device is stuck; the rank that uses it stalls, and the others wait for it."""
    rng = cluster.rng(f"fault/{case.onset_ns}")
    device = f"qdx_accel 0000:{rng.randrange(16, 224):02x}:00.0"
    texts = [
        f"{device}: mailbox {rng.randrange(8)}: doorbell not acknowledged",
        f"{device}: queue pair {rng.randrange(64)} quiesced, giving up",
    ]
    cluster.kernel(case.node, spread(cluster.now_ns, texts))
    yield 0.2
    yield from reactions.peers_time_out(cluster, case.job, {case.rank})


def _unknown_exit(cluster: Cluster, case: Case) -> Process:
    """A library of the program gives up with an unknown line; the launcher reports the exit."""
    rng = cluster.rng(f"fault/{case.onset_ns}")
    texts = [
        f"kvstore[{case.rank}]: shard map epoch {rng.randrange(9_999)} diverged from quorum",
        f"kvstore[{case.rank}]: leaving with status 17",
    ]
    case.job.is_stalled = True
    reactions.emit(cluster, case.job, case.rank, spread(cluster.now_ns, texts))
    yield 0.8
    yield from reactions.process_ends(cluster, case.job, case.rank, 17)


KINDS = (
    FaultKind("unknown-driver", "unknown-death", _unknown_driver, frameworks=TORCH, names_class=False, lasts_s=900),
    FaultKind("unknown-exit", "unknown-death", _unknown_exit, frameworks=TORCHRUN, names_class=False),
)
