"""The life of a job: start-up, steps, checkpoints, evaluations, a straggler that recovers, its end."""

from __future__ import annotations

from random import Random
from typing import Final

from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.endings import emit_header
from epicenter.ingest.simulate.frameworks import printer_of
from epicenter.ingest.simulate.model import MS, Job

START_UP_S: Final = 30.0
"""From the first line of a job to its first step."""
_EVALUATES_EVERY: Final = 5
"""Checkpoints between two evaluations."""


def live(cluster: Cluster, job: Job) -> Process:
    """Everything that the job prints while nothing is wrong with it."""
    printer, rng = printer_of(job), cluster.rng(f"job/{job.job_id}")
    if job.platform == "slurm":
        emit_header(cluster, job)
    for place in range(len(job.nodes)):
        if place not in job.missing:
            at_ns = cluster.now_ns + rng.randrange(2_000) * MS
            cluster.worker(job, place, printer.start_lines(job, place, at_ns))
    if job.missing:
        return
    yield START_UP_S + rng.uniform(0, 3) + 3 * job.step_time_s
    cluster.start(_chatter(cluster, job))
    slow = _Straggling(rng)
    while not (job.is_over or job.is_stalled):
        took_s = job.step_time_s * rng.uniform(0.985, 1.015) * slow.factor(job)
        yield took_s
        if job.is_over or job.is_stalled:
            return
        step = job.first_step + job.steps_done
        printer.step(cluster, job, step, took_s, rng)
        job.steps_done += 1
        if job.stop_at_step is not None and job.steps_done >= job.stop_at_step:
            yield from _finish(cluster, job)
            return
        yield from _pause(cluster, job, step, rng)


def _finish(cluster: Cluster, job: Job) -> Process:
    job.is_over = True
    printer_of(job).finish(cluster, job)
    yield 2.0
    cluster.release(job)


def _pause(cluster: Cluster, job: Job, step: int, rng: Random) -> Process:
    """A checkpoint at a round step, announced or not; after every fifth one an evaluation."""
    if (step + 1) % job.checkpoint_every:
        return
    printer = printer_of(job)
    if job.is_announced:
        printer.saving(cluster, job, step)
    yield _checkpoint_s(job, rng)
    if job.is_over or job.is_stalled:
        return
    if job.is_announced:
        printer.saved(cluster, job, step)
    if (step + 1) % (job.checkpoint_every * _EVALUATES_EVERY) == 0:
        yield rng.uniform(3, 6) * job.step_time_s
        if not (job.is_over or job.is_stalled):
            printer.evaluated(cluster, job, step, rng)


def _checkpoint_s(job: Job, rng: Random) -> float:
    return min(45.0, rng.uniform(2, 4) * job.step_time_s)


class _Straggling:
    """Now and then, a few steps take half as long again."""

    def __init__(self, rng: Random):
        self._rng = rng
        self._steps_left = 0

    def factor(self, job: Job) -> float:
        if self._steps_left:
            self._steps_left -= 1
            return 1.5 * job.slowness
        if self._rng.random() < 0.003:
            self._steps_left = self._rng.randrange(2, 8)
        return job.slowness


def _chatter(cluster: Cluster, job: Job) -> Process:
    """The job's harmless lines."""
    rng, printer = cluster.rng(f"job/{job.job_id}/murmur"), printer_of(job)
    per_minute = cluster.scenario.worker_noise_per_minute * len(job.nodes)
    while per_minute:
        yield rng.expovariate(per_minute / 60)
        if job.is_over or job.is_stalled:
            return
        place = rng.randrange(len(job.nodes))
        cluster.worker(job, place, [(cluster.now_ns, printer.noise(job, place, rng))])
