"""How far the nodes' clocks differ, learnt from steps: all ranks of a job complete a step at the same moment."""

from __future__ import annotations

from statistics import median, median_low
from typing import Final

import msgspec

MAX_KEPT_PER_NODE: Final = 20
NEEDED: Final = 5
MAX_KEPT_NODES: Final = 20_000
MAX_KEPT_JOBS: Final = 5_000


class _Round(msgspec.Struct):
    """When each node reported a job's newest step, by its own clock."""

    step: int
    reported_ns: dict[str, int] = msgspec.field(default_factory=dict, name="told_ns")


class ClockSkew(msgspec.Struct):
    """The newest differences of each node from the middle of its job, step by step.

    The nodes and jobs without steps for the longest time are forgotten first.
    """

    rounds: dict[str, _Round] = {}
    differences_ns: dict[str, list[int]] = {}

    def record_step(self, job: str, node: str, step: int, time_ns: int) -> None:
        """Record a node's step of a job (`cluster/job`, `cluster/node`); a node's first report of a step counts."""
        current = self.rounds.get(job)
        if current is None or step > current.step:
            if current is not None:
                self._close(self.rounds.pop(job))
            self.rounds[job] = current = _Round(step)
            if len(self.rounds) > MAX_KEPT_JOBS:
                del self.rounds[next(iter(self.rounds))]
        if step == current.step:
            current.reported_ns.setdefault(node, time_ns)

    def skew_ns(self, node: str) -> int | None:
        """How far a node's clock is ahead of its jobs' other nodes, in ns; None after too few steps."""
        differences_ns = self.differences_ns.get(node, ())
        return int(median(differences_ns)) if len(differences_ns) >= NEEDED else None

    def skews_ns(self) -> dict[str, int]:
        """The skew in ns of every node where it is known."""
        found = ((node, self.skew_ns(node)) for node in sorted(self.differences_ns))
        return {node: skew_ns for node, skew_ns in found if skew_ns is not None}

    def _close(self, done: _Round) -> None:
        if len(done.reported_ns) < 2:
            return
        middle_ns = median_low(done.reported_ns.values())
        for node, reported_ns in done.reported_ns.items():
            earlier_ns = self.differences_ns.pop(node, [])
            self.differences_ns[node] = [*earlier_ns[1 - MAX_KEPT_PER_NODE :], reported_ns - middle_ns]
            if len(self.differences_ns) > MAX_KEPT_NODES:
                del self.differences_ns[next(iter(self.differences_ns))]
