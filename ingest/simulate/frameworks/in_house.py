"""Training loops that print steps in in-house formats, under torchrun. Rank 0 prints them, or one rank a node."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.frameworks.common import HARMLESS, loss, too_long, torch_start
from epicenter.ingest.simulate.headers import utc_time
from epicenter.ingest.simulate.model import Job, Text, Timed
from epicenter.rules.model.times import NS_PER_S

STEPS: Final = 250_000
Format = Callable[[int, int, float, float], Text]
"""A line from the rank, the step (from one), its loss and its length in seconds."""


def _bars(rank: int, step: int, value: float, took_s: float) -> Text:
    return f"step {step:>7} | loss {value:.4f} | lr 3.00e-04 | grad_norm 1.02 | {took_s:.2f} s/step | 411.3 TFLOP/s/gpu"


def _json(rank: int, step: int, value: float, took_s: float) -> Text:
    return (
        f'{{"event": "train_step", "step": {step}, "loss": {value:.5f}, "step_time_s": {took_s:.3f}, "rank": {rank}}}'
    )


def _logging(rank: int, step: int, value: float, took_s: float) -> Text:
    def render(clock_ns: int) -> str:
        stamp = f"{utc_time(clock_ns, '%Y-%m-%d %H:%M:%S')},{clock_ns % NS_PER_S // 10**6:03d}"
        return f"{stamp} INFO trainer.loop [rank {rank}] it={step} loss={value:.4f} dt={took_s:.2f}s"

    return render


def _epoch(rank: int, step: int, value: float, took_s: float) -> Text:
    return f"Train Epoch: 0 [{step}/{STEPS} ({100 * step / STEPS:.0f}%)]\tLoss: {value:.6f}"


def _iteration(rank: int, step: int, value: float, took_s: float) -> Text:
    return f"[{rank}] iter {step}/{STEPS}: loss={value:.3f} ({took_s * 1000:.0f} ms/iter)"


FORMATS: Final[tuple[Format, ...]] = (_bars, _json, _logging, _epoch, _iteration)


class InHouse:
    """See `Printer`."""

    def start_lines(self, job: Job, place: int, at_ns: int) -> list[Timed]:
        """torchrun and NCCL."""
        return torch_start(job, place, at_ns)

    def step(self, cluster: Cluster, job: Job, step: int, took_s: float, rng: Random) -> None:
        """Formats with odd numbers are printed by one rank of each node."""
        number, value = job.step_format or 0, loss(step, rng)
        for place in range(len(job.nodes) if number % 2 else 1):
            line = FORMATS[number](job.ranks(place).start, step + 1, value, took_s)
            cluster.worker(job, place, [(cluster.now_ns + place * 1000, line)], "stdout")

    def saving(self, cluster: Cluster, job: Job, step: int) -> None:
        """Rank 0 begins."""
        cluster.worker(job, 0, [(cluster.now_ns, f"saving checkpoint for step {step + 1}")], "stdout")

    def saved(self, cluster: Cluster, job: Job, step: int) -> None:
        """Rank 0 is done."""
        cluster.worker(job, 0, [(cluster.now_ns, f"checkpoint saved to /checkpoints/run/step_{step + 1}")], "stdout")

    def evaluated(self, cluster: Cluster, job: Job, step: int, rng: Random) -> None:
        """Rank 0 prints the loss."""
        cluster.worker(job, 0, [(cluster.now_ns, f"eval at step {step + 1}: val_loss={loss(step, rng):.4f}")], "stdout")

    def noise(self, job: Job, place: int, rng: Random) -> Text:
        """One of the usual."""
        return rng.choice((*HARMLESS, too_long(rng)))

    def finish(self, cluster: Cluster, job: Job) -> None:
        """Rank 0 reports the end."""
        cluster.worker(job, 0, [(cluster.now_ns, "training finished, bye")], "stdout")
