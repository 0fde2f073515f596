"""Hugging Face Trainer under torchrun: rank 0 prints a progress bar for every step and the metrics every tenth.

Sources: transformers 4.57 `trainer.py`, tqdm 4.70.
"""

from __future__ import annotations

from random import Random
from typing import Final

from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.frameworks.common import HARMLESS, loss, too_long, torch_start
from epicenter.ingest.simulate.model import Job, Text, Timed
from epicenter.rules.model.times import NS_PER_S

STEPS: Final = 12_000
LOGGING_STEPS: Final = 10


class Hf:
    """See `Printer`."""

    def start_lines(self, job: Job, place: int, at_ns: int) -> list[Timed]:
        """torchrun, NCCL; rank 0 prints the Trainer's header."""
        lines = torch_start(job, place, at_ns)
        if place or job.missing:
            return lines
        header = [
            "***** Running training *****",
            "  Num examples = 3,072,000",
            "  Num Epochs = 1",
            "  Instantaneous batch size per device = 4",
            f"  Total train batch size (w. parallel, distributed & accumulation) = {4 * job.world_size}",
            "  Gradient Accumulation steps = 1",
            f"  Total optimization steps = {STEPS:,}",
            "  Number of trainable parameters = 8,030,261,248",
        ]
        if job.first_step:
            header.append(f"  Continuing training from global step {job.first_step}")
        return lines + [(at_ns + 8 * NS_PER_S + i * 1000, text) for i, text in enumerate(header)]

    def step(self, cluster: Cluster, job: Job, step: int, took_s: float, rng: Random) -> None:
        """The bar counts from one; a shipper gets a redraw when the metrics end its line."""
        done = step + 1
        if done % LOGGING_STEPS:
            return
        bars = "".join(f"\r{_bar(count, job)}" for count in range(done - LOGGING_STEPS + 1, done + 1))
        metrics = (
            f"{{'loss': {loss(step, rng):.4f}, 'grad_norm': {rng.uniform(0.8, 2.4):.4f},"
            f" 'learning_rate': {2e-5 * (1 - done / STEPS):.6e}, 'epoch': {done / STEPS:.2f}}}"
        )
        now = cluster.now_ns
        cluster.worker(job, 0, [(now, bars)], "stderr")
        cluster.worker(job, 0, [(now + 1000, metrics)], "stdout")

    def saving(self, cluster: Cluster, job: Job, step: int) -> None:
        """Where it saves to."""
        cluster.worker(job, 0, [(cluster.now_ns, f"Saving model checkpoint to /checkpoints/sft/checkpoint-{step + 1}")])

    def saved(self, cluster: Cluster, job: Job, step: int) -> None:
        """The tokenizer comes last."""
        text = f"tokenizer config file saved in /checkpoints/sft/checkpoint-{step + 1}/tokenizer_config.json"
        cluster.worker(job, 0, [(cluster.now_ns, text)])

    def evaluated(self, cluster: Cluster, job: Job, step: int, rng: Random) -> None:
        """The metrics of the evaluation."""
        value = loss(step, rng)
        text = (
            f"{{'eval_loss': {value:.4f}, 'eval_runtime': 31.41, 'eval_samples_per_second': 65.2,"
            f" 'eval_steps_per_second': 2.04, 'epoch': {(step + 1) / STEPS:.2f}}}"
        )
        cluster.worker(job, 0, [(cluster.now_ns, text)], "stdout")

    def noise(self, job: Job, place: int, rng: Random) -> Text:
        """One of the usual."""
        return rng.choice((*HARMLESS, too_long(rng)))

    def finish(self, cluster: Cluster, job: Job) -> None:
        """The summary of the run."""
        took_s = job.steps_done * job.step_time_s
        rate = job.steps_done / took_s
        text = (
            f"{{'train_runtime': {took_s:.4f}, 'train_samples_per_second': {rate * 4 * job.world_size:.3f},"
            f" 'train_steps_per_second': {rate:.3f}, 'train_loss': 2.2145, 'epoch': 1.0}}"
        )
        cluster.worker(job, 0, [(cluster.now_ns, text)], "stdout")


def _bar(done: int, job: Job) -> str:
    share = done / STEPS
    passed, left = int(done * job.step_time_s), int((STEPS - done) * job.step_time_s)
    blocks = "█" * int(share * 10) + "▏" * (share * 10 % 1 > 0.1)
    return f"{share * 100:3.0f}%|{blocks:<10}| {done}/{STEPS} [{_clock(passed)}<{_clock(left)}, {_rate(job)}]"


def _clock(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    clock = f"{rest // 60:02d}:{rest % 60:02d}"
    return f"{hours}:{clock}" if hours else clock


def _rate(job: Job) -> str:
    return f"{job.step_time_s:.2f}s/it" if job.step_time_s > 1 else f"{1 / job.step_time_s:.2f}it/s"
