"""Megatron-LM under torchrun: the last rank alone prints progress, rank 0 the checkpoints.

Sources: Megatron core 0.12 `training.py` and `checkpointing.py`.
"""

from __future__ import annotations

from random import Random

from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.frameworks.common import HARMLESS, loss, too_long, torch_start
from epicenter.ingest.simulate.headers import utc_time
from epicenter.ingest.simulate.model import MS, US, Job, Text, Timed
from epicenter.rules.model.times import NS_PER_S

STEPS = 500_000
_FOLDER = "/checkpoints/gpt"


class Megatron:
    """See `Printer`."""

    def start_lines(self, job: Job, place: int, at_ns: int) -> list[Timed]:
        """torchrun, NCCL; rank 0 prints the checkpoint from which it resumes."""
        lines = torch_start(job, place, at_ns)
        if place == 0 and job.first_step and not job.missing:
            lines.append((at_ns + 9 * NS_PER_S, f" loading checkpoint from {_FOLDER} at iteration {job.first_step}"))
        return lines

    def step(self, cluster: Cluster, job: Job, step: int, took_s: float, rng: Random) -> None:
        """Megatron counts from one."""
        throughput, norm, value = rng.uniform(408, 416), rng.uniform(0.8, 2.4), loss(step, rng)

        def render(clock_ns: int) -> str:
            return (
                f" [{utc_time(clock_ns, '%Y-%m-%d %H:%M:%S')}.{clock_ns % NS_PER_S // US:06d}]"
                f" iteration {step + 1:8d}/{STEPS:8d} | consumed samples: {256 * (step + 1):12d} |"
                f" elapsed time per iteration (ms): {took_s * 1000:.1f} |"
                f" throughput per GPU (TFLOP/s/GPU): {throughput:.1f} | learning rate: 1.000000E-05 |"
                f" global batch size: {256:5d} | lm loss: {value:.6E} | loss scale: 1.0 |"
                f" grad norm: {norm:.3f} | number of skipped iterations: {0:3d} |"
                f" number of nan iterations: {0:3d} |"
            )

        cluster.worker(job, len(job.nodes) - 1, [(cluster.now_ns, render)], "stdout")

    def saving(self, cluster: Cluster, job: Job, step: int) -> None:
        """Rank 0 begins."""
        text = f"saving checkpoint at iteration {step + 1:7d} to {_FOLDER} in torch_dist format"
        cluster.worker(job, 0, [(cluster.now_ns, text)], "stdout")

    def saved(self, cluster: Cluster, job: Job, step: int) -> None:
        """Rank 0 is done."""
        text = f"  successfully saved checkpoint from iteration {step + 1:7d} to {_FOLDER}"
        cluster.worker(job, 0, [(cluster.now_ns, text)], "stdout")

    def evaluated(self, cluster: Cluster, job: Job, step: int, rng: Random) -> None:
        """The last rank prints a box."""
        value = loss(step, rng)
        text = f" validation loss at iteration {step + 1} | lm loss value: {value:.6E} | lm loss PPL: {2**value:.6E} | "
        bar = "-" * len(text)
        cluster.worker(job, len(job.nodes) - 1, [(cluster.now_ns, line) for line in (bar, text, bar)], "stdout")

    def noise(self, job: Job, place: int, rng: Random) -> Text:
        """One of the usual."""
        memory = (
            f"[Rank {rng.choice(job.ranks(place))}] memory (MB) | allocated: {rng.randrange(21_000, 26_000)}.5"
            " | max allocated: 61230.2 | reserved: 64512.0 | max reserved: 64512.0"
        )
        return rng.choice((*HARMLESS, too_long(rng), memory))

    def finish(self, cluster: Cluster, job: Job) -> None:
        """Rank 0 saves and prints the time."""
        step = job.first_step + job.steps_done
        last = f"[after training is done] datetime: {utc_time(cluster.now_ns, '%Y-%m-%d %H:%M:%S')} "
        texts = [
            f"saving checkpoint at iteration {step:7d} to {_FOLDER} in torch_dist format",
            f"  successfully saved checkpoint from iteration {step:7d} to {_FOLDER}",
            last,
        ]
        block = [(cluster.now_ns + i * 400 * MS, text) for i, text in enumerate(texts)]
        cluster.worker(job, 0, block, "stdout")
