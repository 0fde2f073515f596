"""How a job's end shows in logs: srun, slurmstepd and slurmctld, or the events of Kubernetes and its operators.

Sources: Slurm 24.11 `srun`, `slurmstepd`, `slurmctld`; Kubeflow's training operator, JobSet, KubeRay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from epicenter.ingest.simulate import jax_lines, ray_lines, torch_lines
from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.envelopes import container_name, pod_name
from epicenter.ingest.simulate.headers import hostlist, ranges, spread, utc_time
from epicenter.ingest.simulate.model import MS, Job

_KINDS = {"megatron": "PyTorchJob", "hf": "PyTorchJob", "maxtext": "JobSet", "ray": "RayJob"}


def emit_header(cluster: Cluster, job: Job) -> None:
    """What the batch script prints about the job, and slurmctld about its start."""
    texts = [
        f"JOB_ID={job.job_id}",
        f"JOB_NAME=pretrain-{job.job_id}",
        f"NNODES={len(job.nodes)}",
        f"JOB_NODELIST={hostlist(job.nodes)}",
    ]
    cluster.job_out(job, spread(cluster.now_ns, texts))
    started = f"sched: Allocate JobId={job.job_id} NodeList={hostlist(job.nodes)} #CPUs={224 * len(job.nodes)}"
    cluster.slurmctld([(cluster.now_ns, f"{started} Partition=gpu")])


def failed(cluster: Cluster, job: Job, first: int, hung: Collection[int]) -> Process:
    """All nodes' launchers have ended with code 1, `first` before the others; the `hung` have to be killed."""
    job.is_over = True
    cluster.release(job)
    if job.platform == "slurm":
        rest = set(range(len(job.nodes))) - set(hung) - {first}
        texts = [task_ended(job, [first], "Exited with exit code 1"), f"srun: Terminating StepId={job.job_id}.0"]
        texts += _cancelled(cluster, job)
        texts += [task_ended(job, rest, "Exited with exit code 1")] if rest else []
        texts += [task_ended(job, hung, "Killed")] if hung else []
        _slurm_end(cluster, job, texts, "WEXITSTATUS 1")
    else:
        yield 1.0
        kind = _KINDS[job.framework]
        failed = f"{kind} {job.job_id} is failed because {len(job.nodes)} Worker replica(s) failed."
        cluster.event(f"{kind}Failed", f"{kind}/{job.job_id}", failed)
        delete_pods(cluster, job, hung)


def slurm_kills_step(cluster: Cluster, job: Job, first: int) -> Process:
    """The task on node `first` ended with code 1 and Slurm ends the others."""
    job.is_over = True
    cluster.release(job)
    others = set(range(len(job.nodes))) - {first}
    texts = [task_ended(job, [first], "Exited with exit code 1"), f"srun: Terminating StepId={job.job_id}.0"]
    texts += _cancelled(cluster, job)
    agents_stop(cluster, job, others)
    texts += [task_ended(job, others, "Terminated")] if others else []
    yield 0.4
    _slurm_end(cluster, job, texts, "WEXITSTATUS 1")


def slurm_node_fails(cluster: Cluster, job: Job, place: int) -> Process:
    """slurmctld misses the node, sets it down after SlurmdTimeout (300 s) and ends the job."""
    node, job_id = job.nodes[place], job.job_id
    yield 120.0
    cluster.slurmctld([(cluster.now_ns, f"error: Nodes {node.name} not responding")])
    yield 180.0
    if job.is_over:
        return
    job.is_over = True
    down = f"error: Nodes {node.name} not responding, setting DOWN"
    killed = f"Killing JobId={job_id} on failed node {node.name}"
    cluster.slurmctld(spread(cluster.now_ns, [down, killed], 2 * MS))
    others = [other for other in range(len(job.nodes)) if other != place]
    step = f"STEP {job_id}.0 ON {job.nodes[others[0]].name}"
    cause = "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"
    texts = [
        f"srun: error: Node failure on {node.name}",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        f"slurmstepd: error: *** {step} CANCELLED AT {utc_time(cluster.now_ns)} {cause} ***",
        task_ended(job, others, "Terminated"),
    ]
    cluster.job_out(job, spread(cluster.now_ns + 100 * MS, texts, 90 * MS))


def cancelled_by_user(cluster: Cluster, job: Job) -> Process:
    """A person ends the job: scancel, or deleting it."""
    job.is_over = True
    cluster.release(job)
    everyone = range(len(job.nodes))
    if job.platform == "slurm":
        called = f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={job.job_id} uid 10021"
        cluster.slurmctld([(cluster.now_ns, called)])
        agents_stop(cluster, job, everyone)
        texts = ["srun: Force Terminated JobId=" + job.job_id, *_cancelled(cluster, job)]
        _slurm_end(cluster, job, [*texts, task_ended(job, everyone, "Terminated")], "WTERMSIG 15")
        return
    delete_pods(cluster, job, ())
    yield 0.5
    agents_stop(cluster, job, everyone)


def slurm_ends(cluster: Cluster, job: Job, why: str, message: str) -> Process:
    """slurmctld ends the job for a reason such as `DUE TO TIME LIMIT`."""
    job.is_over = True
    cluster.release(job)
    cluster.slurmctld([(cluster.now_ns, f"{message} JobId={job.job_id}")])
    at = utc_time(cluster.now_ns)
    cancelled = [
        f"slurmstepd: error: *** {entity} ON {job.nodes[0].name} CANCELLED AT {at} {why} ***"
        for entity in (f"JOB {job.job_id}", f"STEP {job.job_id}.0")
    ]
    yield 0.3
    everyone = range(len(job.nodes))
    agents_stop(cluster, job, everyone)
    waiting = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish."
    _slurm_end(cluster, job, [*cancelled, waiting, task_ended(job, everyone, "Terminated")], "WTERMSIG 15")


def delete_pods(cluster: Cluster, job: Job, without: Collection[int]) -> None:
    """The kubelets stop what still runs of a job."""
    for place, node in enumerate(job.nodes):
        if place not in without and not node.is_dead and (place == 0 or job.framework != "ray"):
            container_stops(cluster, job, place)


def container_stops(cluster: Cluster, job: Job, place: int) -> None:
    """A kubelet stops one container."""
    text = f"Stopping container {container_name(job)}"
    cluster.event("Killing", f"Pod/{pod_name(job, place)}", text, "Normal", job.nodes[place].name)


def task_ended(job: Job, places: Iterable[int], how: str) -> str:
    """srun's line about tasks (one a node) that have ended."""
    tasks = sorted(places)
    nodes = hostlist(job.nodes[place] for place in tasks)
    noun = "task" if len(tasks) == 1 else "tasks"
    return f"srun: error: {nodes}: {noun} {ranges(tasks)}: {how}"


def agents_stop(cluster: Cluster, job: Job, places: Iterable[int]) -> None:
    """The launchers on these nodes get SIGTERM."""
    for place in places:
        at = cluster.now_ns + 50 * MS
        if job.framework in ("megatron", "hf"):
            cluster.worker(job, place, torch_lines.agent_terminated(job, place, at))
        elif job.framework == "maxtext":
            cluster.worker(job, place, jax_lines.terminated(place, at))
        elif place == 0:
            cluster.worker(job, place, ray_lines.stopped(job, at))


def _cancelled(cluster: Cluster, job: Job) -> list[str]:
    at = utc_time(cluster.now_ns)
    return [
        f"slurmstepd: error: *** STEP {job.job_id}.0 ON {job.nodes[0].name} CANCELLED AT {at} ***",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    ]


def _slurm_end(cluster: Cluster, job: Job, texts: list[str], how: str) -> None:
    last = f"srun: Force Terminated StepId={job.job_id}.0"
    cluster.job_out(job, spread(cluster.now_ns, [*texts, last], 100 * MS))
    done = [f"_job_complete: JobId={job.job_id} {how}", f"_job_complete: JobId={job.job_id} done"]
    cluster.slurmctld(spread(cluster.now_ns + 900 * MS, done, MS))


def rendezvous_failed(cluster: Cluster, job: Job, place: int) -> Process:
    """The launchers of all nodes but one wait for it, and give up after ten minutes."""
    yield 600.0
    host, others = job.nodes[0].name, [other for other in range(len(job.nodes)) if other != place]
    texts = [
        "Traceback (most recent call last):",
        '  File "/usr/local/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
    ]
    waiting = f"The client socket has timed out after 600000ms while trying to connect to ({host}, 29500)."
    for other in others:
        lines = [*texts[:-1], f"torch.distributed.DistNetworkError: {waiting}"] if place == 0 else texts
        at = cluster.now_ns + 30 * MS * (other % 40)
        cluster.worker(job, other, spread(at, lines))
    yield 3.0
    yield from failed(cluster, job, others[0], (place,))
