"""What Ray's driver prints when a worker, an actor or a node is lost. Source: Ray 2.48; the worker catalogue."""

from __future__ import annotations

from hashlib import sha1

from epicenter.ingest.simulate.headers import spread
from epicenter.ingest.simulate.model import Job, Text, Timed

_CONTROLLER = "(TrainController pid=2201) "


def node_id(job: Job, place: int) -> str:
    """Ray's name for a node."""
    return sha1(f"{job.job_id}/{place}".encode()).hexdigest()[:56].ljust(56, "0")


def worker_died(job: Job, rank: int, at_ns: int, exit_code: int) -> list[Timed]:
    """The raylet reports the lost worker, the controller ends the group, the driver raises."""
    place = rank // job.ranks_per_node
    ip, pid = job.nodes[place].ip, job.pid(rank)
    reason = (
        "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2."
        " End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to"
        " high memory usage. (2) ray stop --force is called. (3) The worker is crashed unexpectedly due to SIGSEGV or"
        " other unexpected errors."
    )
    raylet = (
        f"(raylet{f', ip={ip}' if place else ''}) A worker died or was killed while executing a task by an unexpected"
        " system error. To troubleshoot the problem, check the logs for the dead worker. Lease ID:"
        f" {node_id(job, rank + 1)[:40]} Worker ID: {node_id(job, rank + 2)} Node ID: {node_id(job, place)}"
        f" Worker IP address: {ip} Worker port: {10_002 + rank} Worker PID: {pid} {reason}"
    )
    return spread(at_ns, [raylet, *_actor_died(job, rank, f"its worker process has died. {reason}")])


def node_died(job: Job, place: int, at_ns: int) -> list[Timed]:
    """The GCS has marked the node dead after missed health checks."""
    node = job.nodes[place]
    marked = (
        f"(raylet) The node with node id: {node_id(job, place)} and address: {node.ip} and node name: {node.ip} has"
        " been marked dead because the detector has missed too many heartbeats from it. This can happen when a"
        " \t(1) raylet crashes unexpectedly (OOM, etc.) "
    )
    lagging = "\t(2) raylet has lagging heartbeats due to slow network or busy workload."
    rank = job.ranks(place).start
    died = f"its node has died. Node Id: {node_id(job, place)}"
    return spread(at_ns, [marked, lagging, *_actor_died(job, rank, died)])


def stopped(job: Job, at_ns: int) -> list[Timed]:
    """The driver gets `ray job stop`."""
    return spread(
        at_ns, [f"Attempting to stop job 'raysubmit_{job.job_id}'", f"Job 'raysubmit_{job.job_id}' was stopped"]
    )


def _actor_died(job: Job, rank: int, because: str) -> list[Text]:
    node = job.nodes[rank // job.ranks_per_node]
    error = [
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        "\tclass_name: RayTrainWorker",
        f"\tactor_id: {node_id(job, rank + 3)[:32]}",
        f"\tpid: {job.pid(rank)}",
        "\tnamespace: 5f0c2f3e-4b0e-4a9f-9c8e-5b1f0d0f7a11",
        f"\tip: {node.ip}",
        f"The actor is dead because {because}",
    ]
    return group_failed(job, {rank: error})


def group_failed(job: Job, errors: dict[int, list[str]]) -> list[Text]:
    """The controller ends the worker group with each rank's error; the driver raises and the job has failed."""
    texts = [
        f"{_CONTROLLER}Terminating training worker group after encountering failure(s) on {len(errors)} worker(s):"
    ]
    for rank, error in errors.items():
        texts += [f"{_CONTROLLER}[rank={rank}] Error:", *(f"{_CONTROLLER}{line}" for line in error)]
    texts += [
        "Traceback (most recent call last):",
        '  File "/workspace/train_ray.py", line 88, in <module>',
        "    result = trainer.fit()",
        "ray.train.WorkerGroupError: Training failed due to worker errors:",
        *(f"[Rank {rank}]" for rank in errors),
        *(line for error in errors.values() for line in error[-1:]),
    ]
    return [*texts]
