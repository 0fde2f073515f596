"""How the rest of a job reacts when one of its processes exits or stalls.

A job whose peer stalls waits for its watchdog (torch: 10 or 30 minutes; JAX has none). A job whose peer has exited
learns it from a closed socket, from its launcher, from Slurm, or from a missed heartbeat (JAX: 100 s).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Final

from epicenter.ingest.simulate import endings, jax_lines, ray_lines, torch_lines
from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.frameworks.ray_train import forwarded
from epicenter.ingest.simulate.model import MS, Job, Timed, ns
from epicenter.ingest.simulate.torch_lines import Collective

HEARTBEAT_S: Final = 100.0
"""jaxlib's default."""

WorkOf = Callable[[int], Collective]


def collective(cluster: Cluster, job: Job) -> WorkOf:
    """The collective that all ranks of a job wait in, the same on each."""
    rng = cluster.rng(f"collective/{job.job_id}")
    sequence = job.steps_done * 48 + rng.randrange(1, 48)
    work = Collective(sequence, rng.choice((8_388_608, 33_554_432, 67_108_864)), round(job.timeout_s * 1000))
    return lambda rank: work


def emit(cluster: Cluster, job: Job, rank: int, block: list[Timed]) -> None:
    """Write lines of one rank, as its framework prints them."""
    place = rank // job.ranks_per_node
    cluster.worker(job, place, forwarded(job, rank, block) if job.framework == "ray" else block)


def peers_time_out(cluster: Cluster, job: Job, silent: Collection[int], work_of: WorkOf | None = None) -> Process:
    """Every rank but the `silent` ones waits for its watchdog, and then the job ends. Start it when the job stalls."""
    job.is_stalled = True
    if job.framework == "maxtext":
        return
    work_of = work_of or collective(cluster, job)
    rng, since_ns = cluster.rng(f"time-out/{job.job_id}"), cluster.now_ns
    yield job.timeout_s
    if job.is_over:
        return
    for place in range(len(job.nodes)):
        ranks = [rank for rank in job.ranks(place) if rank not in silent]
        if ranks and not job.nodes[place].is_dead:
            cluster.start(_node_times_out(cluster, job, ranks, work_of, since_ns, rng), rng.uniform(0.02, 1.5))
    yield 8.0
    places = {rank // job.ranks_per_node for rank in silent}
    yield from endings.failed(cluster, job, rng.randrange(len(job.nodes)), places)


def _node_times_out(
    cluster: Cluster, job: Job, ranks: list[int], work_of: WorkOf, since_ns: int, rng: Random
) -> Process:
    """The watchdogs of one node fire, and its agent ends."""
    fired_ns = {}
    for rank in ranks:
        work = work_of(rank)
        fired_ns[rank] = cluster.now_ns + rng.randrange(1, 900) * MS
        ran_ms = min(work.timeout_ms + rng.randrange(1, 95), (fired_ns[rank] - since_ns) // MS)
        emit(cluster, job, rank, torch_lines.watchdog_timeout(rank, fired_ns[rank], ran_ms, work))
    yield rng.uniform(2.5, 3.5)
    first = min(ranks, key=fired_ns.__getitem__)
    node_agent_fails(cluster, job, first, -6)


def node_agent_fails(cluster: Cluster, job: Job, rank: int, exit_code: int) -> None:
    """torchrun on the rank's node ends with its table, now. Ray has no such agent."""
    place = rank // job.ranks_per_node
    if job.framework != "ray":
        table = torch_lines.torchrun_failed(job, job.nodes[place], rank, cluster.now_ns, exit_code)
        cluster.worker(job, place, table)


def process_ends(cluster: Cluster, job: Job, rank: int, exit_code: int) -> Process:
    """What follows when the rank's process has ended, by a negative signal or an exit code."""
    job.is_stalled = True
    place = rank // job.ranks_per_node
    if job.framework == "maxtext":
        yield from heartbeats_are_missed(cluster, job, place, HEARTBEAT_S)
    elif job.framework == "ray":
        yield 1.4
        cluster.worker(job, 0, ray_lines.worker_died(job, rank, cluster.now_ns, exit_code))
        yield from endings.failed(cluster, job, 0, ())
    else:
        yield 0.9
        node_agent_fails(cluster, job, rank, exit_code)
        yield from _torch_peers_notice(cluster, job, place)


def _torch_peers_notice(cluster: Cluster, job: Job, place: int) -> Process:
    """Two neighbours in the ring lose a socket; Slurm then ends the step, in pods the others wait for the timeout."""
    rng, work_of = cluster.rng(f"lost-peer/{job.job_id}"), collective(cluster, job)
    neighbours = {(place + 1) % len(job.nodes), (place - 1) % len(job.nodes)} - {place}
    yield rng.uniform(0.8, 1.5)
    for other in sorted(neighbours):
        cluster.start(_node_loses_peer(cluster, job, other, place, work_of, rng), rng.uniform(0.1, 0.9))
    exited = {rank for other in (place, *neighbours) for rank in job.ranks(other)}
    yield from rest_learns(cluster, job, place, exited, work_of)


def _node_loses_peer(cluster: Cluster, job: Job, place: int, lost: int, work_of: WorkOf, rng: Random) -> Process:
    node = job.nodes[place]
    if job.is_over:
        return
    closed_ns = {rank: cluster.now_ns + ns(rng.uniform(0.1, 1.0)) for rank in job.ranks(place)}
    for rank, at in closed_ns.items():
        emit(cluster, job, rank, torch_lines.peer_closed(job, node, rank, at, job.nodes[lost], work_of(rank)))
    yield 2.6
    if not job.is_over:
        node_agent_fails(cluster, job, min(closed_ns, key=closed_ns.__getitem__), -6)


def rest_learns(
    cluster: Cluster, job: Job, place: int, exited: set[int], work_of: WorkOf, after_s: float = 1.5
) -> Process:
    """The remaining ranks learn that the others have `exited`: from Slurm, which saw the task on node `place` end, or
    from their watchdogs."""
    if job.platform == "slurm":
        yield after_s
        yield from endings.slurm_kills_step(cluster, job, place)
    elif len(exited) == job.world_size:
        yield 9.0
        yield from endings.failed(cluster, job, place, ())
    else:
        yield from peers_time_out(cluster, job, exited, work_of)


def all_agents_fail(cluster: Cluster, job: Job, exit_code: int = -6) -> Process:
    """The agents of all nodes end, and with them the job."""
    for place, node in enumerate(job.nodes):
        if job.framework in ("megatron", "hf") and not node.is_dead:
            node_agent_fails(cluster, job, job.ranks(place).start, exit_code)
    yield 2.5
    yield from endings.failed(cluster, job, 0, ())


def node_is_lost(cluster: Cluster, job: Job, place: int) -> Process:
    """The job's node `place` dies without a log line: no socket is closed, and it does not answer."""
    job.is_stalled = True
    if job.framework == "maxtext":
        yield from heartbeats_are_missed(cluster, job, place, HEARTBEAT_S)
    elif job.framework == "ray":
        yield 42.0
        cluster.worker(job, 0, ray_lines.node_died(job, place, cluster.now_ns))
        yield from endings.failed(cluster, job, 0, (place,))
    elif job.platform == "slurm":
        yield from endings.slurm_node_fails(cluster, job, place)
    else:
        yield from peers_time_out(cluster, job, job.ranks(place))


def heartbeats_are_missed(cluster: Cluster, job: Job, place: int, after_s: float) -> Process:
    """The leader reports that a task sent no heartbeat, and every task ends; without the leader, each by itself."""
    rng = cluster.rng(f"heartbeat/{job.job_id}")
    yield after_s + rng.uniform(0.5, 8)
    for other in range(len(job.nodes)):
        if other != place and not job.nodes[other].is_dead:
            at = cluster.now_ns + (0 if other == 0 else ns(rng.uniform(0.005, 0.4)))
            lines = jax_lines.leader_lost(other, at) if place == 0 else jax_lines.heartbeat_lost(other, place, at)
            cluster.worker(job, other, lines)
    yield 1.2
    yield from endings.failed(cluster, job, 0 if place else 1 % len(job.nodes), (place,))
