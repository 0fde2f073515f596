"""Ray Train: the driver on the head node prints for all, each line behind `(RayTrainWorker pid=…, ip=…)`.

Sources: Ray 2.48 `train/torch/config.py`, `train/v2`, the driver's log forwarding.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.frameworks.common import HARMLESS, loss, nccl_start, too_long
from epicenter.ingest.simulate.headers import ray_python
from epicenter.ingest.simulate.model import Job, Text, Timed
from epicenter.rules.model.times import NS_PER_S


class RayTrain:
    """See `Printer`."""

    def start_lines(self, job: Job, place: int, at_ns: int) -> list[Timed]:
        """The controller's list of workers comes from the head, NCCL's start from each worker."""
        lines = [(at, by_worker(job, place, text)) for at, text in nccl_start(job, place, at_ns + 4 * NS_PER_S)]
        if place:
            return lines
        controller = "(TrainController pid=2201) "
        texts = [f"Started training worker group of size {job.world_size}: "]
        for rank in range(min(job.world_size, 64)):
            node = job.nodes[rank // job.ranks_per_node]
            local = rank % job.ranks_per_node
            texts.append(
                f"- (ip={node.ip}, pid={job.pid(rank)}) world_rank={rank}, local_rank={local},"
                f" node_rank={rank // job.ranks_per_node}"
            )
        started = [(at_ns + i * 1000, f"{controller}{text}") for i, text in enumerate(texts)]
        setup = f"Setting up process group for: env:// [rank=0, world_size={job.world_size}]"
        first: Timed = (at_ns + 2 * NS_PER_S, by_worker(job, 0, setup))
        return [*started, first, *lines]

    def step(self, cluster: Cluster, job: Job, step: int, took_s: float, rng: Random) -> None:
        """The user's loop prints on rank 0."""
        text = f"step {step}: loss {loss(step, rng):.4f}, time {took_s * 1000:.2f}ms, mfu {rng.uniform(38, 42):.2f}%"
        self._emit(cluster, job, f"iter {text[5:]}")

    def saving(self, cluster: Cluster, job: Job, step: int) -> None:
        """The user's loop prints it."""
        self._emit(cluster, job, f"saving checkpoint to /checkpoints/ray/step_{step}")

    def saved(self, cluster: Cluster, job: Job, step: int) -> None:
        """Ray Train prints its path."""
        where = f"Checkpoint successfully created at: Checkpoint(filesystem=local, path=/checkpoints/ray/step_{step})"
        self._emit(cluster, job, where)

    def evaluated(self, cluster: Cluster, job: Job, step: int, rng: Random) -> None:
        """The user's loop prints the validation loss."""
        value = loss(step, rng)
        self._emit(cluster, job, f"step {step}: train loss {value:.4f}, val loss {value + 0.03:.4f}")

    def noise(self, job: Job, place: int, rng: Random) -> Text:
        """One of the usual, of one of the node's workers."""
        text = rng.choice((*HARMLESS, too_long(rng)))
        return f"{prefix(job, rng.choice(job.ranks(place)))}{text}"

    def finish(self, cluster: Cluster, job: Job) -> None:
        """The driver reports success."""
        done = f"Training completed after {job.steps_done} iterations."
        cluster.worker(job, 0, [(cluster.now_ns, ray_python("INFO", "data_parallel_trainer.py:161", done))], "stdout")
        text = f"Job 'raysubmit_{job.job_id}' succeeded"
        bar = "-" * len(text)
        cluster.worker(job, 0, [(cluster.now_ns + 10**9, line) for line in (bar, text, bar)], "stdout")

    def _emit(self, cluster: Cluster, job: Job, text: str) -> None:
        cluster.worker(job, 0, [(cluster.now_ns, f"{prefix(job, 0)}{text}")], "stdout")


def prefix(job: Job, rank: int) -> str:
    """What Ray's driver puts before a line of a worker; the address is left out on the head node."""
    place = rank // job.ranks_per_node
    ip = f", ip={job.nodes[place].ip}" if place else ""
    return f"(RayTrainWorker pid={job.pid(rank)}{ip}) "


def by_worker(job: Job, place: int, text: Text, rank: int | None = None) -> Text:
    """The line behind the prefix of a node's first worker, or of `rank`."""
    before = prefix(job, job.ranks(place).start if rank is None else rank)
    if isinstance(text, str):
        return f"{before}{text}"
    return lambda clock_ns: f"{before}{text(clock_ns)}"


def forwarded(job: Job, rank: int, block: Iterable[Timed]) -> list[Timed]:
    """A block of a worker as the driver prints it."""
    return [(at, by_worker(job, 0, text, rank)) for at, text in block]
