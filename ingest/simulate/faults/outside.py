"""What comes from outside the job: limits, preemption, eviction, users; heat; credentials of another job."""

from __future__ import annotations

from typing import Final

from epicenter.ingest.simulate import endings, kernel_host, reactions
from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.envelopes import pod_name
from epicenter.ingest.simulate.faults.case import TORCHRUN, Case, FaultKind
from epicenter.ingest.simulate.faults.program import TOKEN, all_raise


def _time_limit(cluster: Cluster, case: Case) -> Process:
    """Slurm ends the job at its limit while it trains."""
    yield from endings.slurm_ends(cluster, case.job, "DUE TO TIME LIMIT", "Time limit exhausted for")


def _slurm_preempted(cluster: Cluster, case: Case) -> Process:
    """A job of higher priority takes the nodes."""
    yield from endings.slurm_ends(cluster, case.job, "DUE TO PREEMPTION", "preempted")


def _spot(cluster: Cluster, case: Case) -> Process:
    """The cloud takes a node back: two minutes' notice, SIGTERM, then the node is off."""
    node, rng = case.node, cluster.rng(f"fault/{case.onset_ns}")
    cluster.event("SpotInterrupted", f"Node/{node.name}", "Spot interruption warning was triggered", host=node.name)
    yield 1.0
    cluster.event("TerminatingOnInterruption", f"Node/{node.name}", "Interruption triggered termination for the Node",
        host=node.name)  # fmt: skip
    yield rng.uniform(60, 90)
    for job in cluster.jobs_on(node):
        if not job.is_over:
            endings.container_stops(cluster, job, job.place(node))
            endings.agents_stop(cluster, job, [job.place(node)])
            cluster.start(reactions.process_ends(cluster, job, job.ranks(job.place(node)).start, -15), 1.0)
    yield 20.0
    cluster.kill(node)


def _evicted(cluster: Cluster, case: Case) -> Process:
    """The kubelet evicts a pod for the disk space that it uses."""
    job, node = case.job, case.node
    text = (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 107374182400, available: 83886080Ki."
        " Container pytorch was using 812Gi, request is 100Gi, has larger consumption of ephemeral-storage. "
    )
    cluster.event("Evicted", f"Pod/{pod_name(job, case.place)}", text, host=node.name)
    yield 1.0
    endings.container_stops(cluster, job, case.place)
    endings.agents_stop(cluster, job, [case.place])
    yield 1.0
    yield from reactions.process_ends(cluster, job, job.ranks(case.place).start, -15)


def _cancelled_after_hang(cluster: Cluster, case: Case) -> Process:
    """All ranks stall; a user cancels the job long before their watchdogs fire."""
    case.job.is_stalled = True
    yield min(case.job.timeout_s - 60, 480.0)
    yield from endings.cancelled_by_user(cluster, case.job)


def _heat(cluster: Cluster, case: Case) -> Process:
    """A node throttles for heat: every step is slower and slower, until a collective does not end in time."""
    job, rng = case.job, cluster.rng(f"fault/{case.onset_ns}")
    for minute in range(8):
        cluster.kernel(case.node, kernel_host.throttled(cluster.now_ns, rng))
        for other in cluster.jobs_on(case.node):
            other.slowness = 1.6 + 0.3 * minute
        yield 60.0
    job.is_stalled = True
    yield from reactions.peers_time_out(cluster, job, {case.rank})


def _expired_upstream(cluster: Cluster, case: Case) -> Process:
    """The job that prepares the data fails for its credential; the training job misses the data minutes later."""
    preparing = cluster.jobs[-1] if cluster.jobs[-1] is not case.job else None
    if preparing is None or preparing.is_over:
        yield from all_raise(cluster, case.job, TOKEN)
        return
    cluster.start(all_raise(cluster, preparing, TOKEN))
    yield 420.0
    shard = f"/datasets/{preparing.job_id}/shard_00412.bin"
    yield from all_raise(cluster, case.job, f"FileNotFoundError: [Errno 2] No such file or directory: '{shard}'")


KINDS: Final = (
    FaultKind("time-limit", "slurm-time-limit", _time_limit, ("train-timeout",), 0.5, "job", (),
        frameworks=("megatron",), platforms=("slurm",)),
    FaultKind("slurm-preempted", "slurm-preempted", _slurm_preempted, ("cancelled",), 0.5, "job", (),
        frameworks=("megatron",), platforms=("slurm",)),
    FaultKind("spot-preempted", "preemption-notice", _spot, ("k8s-preempted",), 0.5, "node", ("node",),
        frameworks=("hf", "maxtext"), platforms=("kubernetes",)),
    FaultKind("evicted", "k8s-evicted", _evicted, (), 0.5, names=("node",), frameworks=("hf",),
        platforms=("kubernetes",)),
    FaultKind("cancelled-after-hang", "hang", _cancelled_after_hang, ("slurm-cancelled", "cancelled"), 1.0, "job", (),
        frameworks=TORCHRUN, verdict="hung", lasts_s=1300),
    FaultKind("heat", "cpu-thermal-throttle", _heat, ("gpu-thermal", "straggler", "slow-gpu"), 1.4, "node", ("node",),
        frameworks=TORCHRUN, lasts_s=1200),
    FaultKind("expired-upstream", "auth-expired", _expired_upstream, ("python-exception",), 0.3, "job", ()),
)  # fmt: skip
