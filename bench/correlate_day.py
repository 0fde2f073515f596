"""A day of a cluster of 100,000 ranks, as matches and heartbeats: for `bench.correlate`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from bench.correlate_input import GPUS, START_NS, TIMEOUT_S, Job, happening
from epicenter.rules.model.heartbeats import Heartbeat
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import NS_PER_S

BATCH_NS = 300 * NS_PER_S
"""The length of a batch of heartbeats: the first and the last of each node, and each step once."""

JOBS = 100
RANKS = int(os.environ.get("BENCH_RANKS", 100_000))
FAILS_ONCE_IN = 6
SAVED_EVERY_STEPS = 100
EACH_NODE_REPORTS_IN = 10
"""In every tenth job each node reports its steps (as in MaxText), in others the last rank does (as in Megatron)."""


@dataclass(frozen=True)
class Run:
    """One attempt of a job: it trains from `begin_ns` to `stop_ns`; a GPU of `lost_node` ended it, if that is set."""

    job: Job
    begin_ns: int
    stop_ns: int
    first_step: int
    pace_ns: int
    lost_node: str
    each_node_reports: bool

    @property
    def end_ns(self) -> int:
        """When its processes end: those that wait for a lost GPU live until their timeout."""
        return self.stop_ns + (TIMEOUT_S + 10) * NS_PER_S * bool(self.lost_node)

    @property
    def last_step(self) -> int:
        """Its last step."""
        return self.first_step + (self.stop_ns - self.begin_ns) // self.pace_ns

    def heartbeats(self, begin_ns: int, end_ns: int) -> Iterator[Heartbeat]:
        """Its heartbeats within a batch, end not included."""
        first_ns, last_ns = max(begin_ns, self.begin_ns), min(end_ns, self.end_ns) - 1
        if first_ns > last_ns:
            return
        if first_ns == self.begin_ns:
            yield from self.job.banners(first_ns)
        yield from self.job.alive(first_ns)
        yield from self.job.alive(last_ns)
        yield from self.job.kernels_alive(last_ns)
        done = max(0, -(-(begin_ns - self.begin_ns) // self.pace_ns))
        for at_ns in range(self.begin_ns + done * self.pace_ns, min(end_ns, self.stop_ns), self.pace_ns):
            step = self.first_step + (at_ns - self.begin_ns) // self.pace_ns
            if self.each_node_reports:
                yield from self.job.step_of_each_node(step, at_ns)
            else:
                yield self.job.step(step, at_ns)

    def end_matches(self) -> Iterator[Match]:
        """The matches at its end."""
        node = self.job.nodes[0]
        if not self.lost_node:
            yield from happening("finished", self.stop_ns, node, self.job.name, 0)
            return
        yield from self.job.gpu_loss(self.lost_node, self.stop_ns)
        yield from happening("cancelled", self.end_ns, node, self.job.name)


class Day:
    """Jobs one after the other on the same nodes; failed jobs restart from their last checkpoint."""

    def __init__(self, hours: int, ranks: int = RANKS, jobs: int = JOBS):
        self._chance = Random(1)
        self._end_ns = START_NS + hours * 3600 * NS_PER_S
        nodes_each = ranks // GPUS // jobs
        self.ranks = jobs * nodes_each * GPUS
        self._runs = [
            run
            for slot in range(jobs)
            for run in self._runs_on(slot, [f"node{slot * nodes_each + index:05d}" for index in range(nodes_each)])
        ]
        self.failures = sum(bool(run.lost_node) and run.stop_ns < self._end_ns for run in self._runs)

    def batch(self, begin_ns: int) -> tuple[list[Match], list[Heartbeat]]:
        """Matches and heartbeats within `BATCH_NS`."""
        end_ns = begin_ns + BATCH_NS
        near = [run for run in self._runs if run.begin_ns < end_ns and begin_ns < run.end_ns + BATCH_NS]
        heartbeats = [heartbeat for run in near for heartbeat in run.heartbeats(begin_ns, end_ns)]
        at_ends = [match for run in near for match in run.end_matches()]
        return [match for match in at_ends if begin_ns <= match.event.event_time_ns < end_ns], heartbeats

    def _runs_on(self, slot: int, nodes: Sequence[str]) -> Iterator[Run]:
        at_ns, step, number = START_NS, 0, 0
        pace_ns = self._chance.randrange(10, 30) * NS_PER_S
        while at_ns < self._end_ns:
            fails = self._chance.randrange(FAILS_ONCE_IN) == 0
            length_ns = self._chance.randrange(3 * 3600, 8 * 3600) * NS_PER_S
            lost_node = self._chance.choice(nodes) if fails else ""
            each_node_reports = slot % EACH_NODE_REPORTS_IN == 0
            job = Job(f"{slot}-{number}", nodes)
            run = Run(job, at_ns, at_ns + length_ns, step, pace_ns, lost_node, each_node_reports)
            yield run
            at_ns = run.end_ns + 180 * NS_PER_S
            step = run.last_step // SAVED_EVERY_STEPS * SAVED_EVERY_STEPS if fails else 0
            number += not fails or self._chance.random() < 0.5
