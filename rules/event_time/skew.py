"""How far the nodes' clocks differ, learnt from what all nodes of a job do at once: steps, and the end of start-up.

What a node logs is processed by the clock of most nodes as soon as its own is known to be far off. Only steps and signs
of life of a clock that is ahead keep their time: they come late, and would look like a pause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median, median_low
from typing import Final

import msgspec

from epicenter.rules.model.times import NS_PER_S

MAX_KEPT_PER_NODE: Final = 20
NEEDED: Final = 5
MAX_KEPT_NODES: Final = 20_000
MAX_KEPT_JOBS: Final = 5_000
COARSE_NS: Final = 2 * NS_PER_S
"""Nodes print the same banner, or give up the same wait, within this time."""

MOMENT_NS: Final = 300 * NS_PER_S
"""A banner that a node prints again after this time is of another start."""

CORRECTED_FROM_NS: Final = 5 * NS_PER_S
CORRECTED_TO_NS: Final = 1800 * NS_PER_S
"""A clock this far off is corrected; what seems further off is rather a node that started at another time."""

MIN_NODES: Final = 3
_NEARLY_ALL: Final = 0.75


class Round(msgspec.Struct):
    """When each node reported a job's newest step, by its own clock."""

    step: int
    reported_ns: dict[str, int] = msgspec.field(default_factory=dict, name="told_ns")


class ClockSkew(msgspec.Struct):
    """The newest differences of each node from the middle of its job, step by step, and when each printed a banner.

    `ahead_ns`: by how much each clock is ahead that is to be corrected. `starting`: jobs that printed banners since
    their newest step. The nodes and jobs without steps or banners for the longest time are forgotten first.
    """

    rounds: dict[str, Round] = {}
    banners: dict[str, dict[str, dict[str, int]]] = {}
    differences_ns: dict[str, list[int]] = {}
    ahead_ns: dict[str, int] = {}
    starting: set[str] = set()

    def record_step(self, job: str, node: str, step: int, time_ns: int) -> None:
        """Record a node's step of a job (`cluster/job`, `cluster/node`); the first report of a step counts.

        The time is the corrected one where the node's clock is behind.
        """
        current = self.rounds.get(job)
        if current is None or step > current.step:
            if job in self.starting:
                self.starting.remove(job)
                self._correct(self._skews_by_banners_ns(job))
            if current is not None:
                self._close(self.rounds.pop(job))
            self.rounds[job] = current = Round(step)
            if len(self.rounds) > MAX_KEPT_JOBS:
                del self.rounds[next(iter(self.rounds))]
        if step == current.step:
            current.reported_ns.setdefault(node, time_ns + min(0, self.ahead_ns.get(node, 0)))

    def record_banner(self, job: str, banner: str, node: str, time_ns: int) -> None:
        """Record that a node of the job printed what all nodes print at once, at its own time; the first of a start
        counts.
        """
        of_job = self.banners.setdefault(job, {})
        printed_ns = of_job.setdefault(banner, {})
        if time_ns - printed_ns.get(node, time_ns) > MOMENT_NS:
            printed_ns.clear()
        printed_ns.setdefault(node, time_ns)
        self.starting.add(job)
        if len(self.banners) > MAX_KEPT_JOBS:
            forgotten = next(iter(self.banners))
            del self.banners[forgotten]
            self.starting.discard(forgotten)

    def forget(self, jobs: Iterable[str]) -> None:
        """Forget the steps and banners of jobs that ended long ago."""
        for job in jobs:
            self.rounds.pop(job, None)
            self.banners.pop(job, None)
            self.starting.discard(job)

    def skews_of_job_ns(self, job: str) -> dict[str, int]:
        """The skews in ns of the job's nodes that are known and not corrected, by steps rather than by banners."""
        coarse, current = self._skews_by_banners_ns(job), self.rounds.get(job)
        fine = ((node, self.skew_ns(node)) for node in [*coarse, *(current.reported_ns if current else ())])
        known = coarse | {node: skew_ns for node, skew_ns in fine if skew_ns is not None}
        return {node: skew_ns - self.ahead_ns.get(node, 0) for node, skew_ns in known.items()}

    def skew_ns(self, node: str) -> int | None:
        """How far a node's clock is ahead of its jobs' other nodes, in ns; None after too few steps."""
        differences_ns = self.differences_ns.get(node, ())
        return int(median(differences_ns)) if len(differences_ns) >= NEEDED else None

    def skews_ns(self) -> dict[str, int]:
        """The skew in ns of every node where it is known."""
        found = ((node, self.skew_ns(node)) for node in sorted(self.differences_ns))
        return {node: skew_ns for node, skew_ns in found if skew_ns is not None}

    def _close(self, done: Round) -> None:
        if len(done.reported_ns) < 2:
            return
        middle_ns = median_low(done.reported_ns.values())
        for node, reported_ns in done.reported_ns.items():
            earlier_ns = self.differences_ns.pop(node, [])
            self.differences_ns[node] = newest_ns = [*earlier_ns[1 - MAX_KEPT_PER_NODE :], reported_ns - middle_ns]
            if node in self.ahead_ns or abs(newest_ns[-1]) >= CORRECTED_FROM_NS:
                self._correct_steadily(node, newest_ns)
            if len(self.differences_ns) > MAX_KEPT_NODES:
                del self.differences_ns[next(iter(self.differences_ns))]

    def _correct_steadily(self, node: str, differences_ns: Sequence[int]) -> None:
        newest_ns = differences_ns[-NEEDED:]
        if len(newest_ns) == NEEDED and max(newest_ns) - min(newest_ns) <= COARSE_NS:
            self._correct({node: int(median(newest_ns))})

    def _skews_by_banners_ns(self, job: str) -> dict[str, int]:
        """The skews in ns by the banners of the job's start; where banners differ, the smallest."""
        skews_ns: dict[str, int] = {}
        for printed_ns in self.banners.get(job, {}).values():
            for node, skew_ns in coarse_skews_ns(printed_ns).items():
                skews_ns[node] = min(skew_ns, skews_ns.get(node, skew_ns), key=abs)
        return skews_ns

    def _correct(self, skews_ns: Mapping[str, int]) -> None:
        for node, skew_ns in skews_ns.items():
            self.ahead_ns.pop(node, None)
            if CORRECTED_FROM_NS <= abs(skew_ns) <= CORRECTED_TO_NS:
                self.ahead_ns[node] = skew_ns
                if len(self.ahead_ns) > MAX_KEPT_NODES:
                    del self.ahead_ns[next(iter(self.ahead_ns))]


def coarse_skews_ns(times_ns: Mapping[str, int]) -> dict[str, int]:
    """How far nodes' clocks are ahead, by when each did what all did at once; empty unless nearly all agree."""
    if len(times_ns) < MIN_NODES:
        return {}
    middle_ns = median_low(times_ns.values())
    skews_ns = {node: time_ns - middle_ns for node, time_ns in times_ns.items()}
    agreeing = sum(abs(skew_ns) <= COARSE_NS for skew_ns in skews_ns.values())
    if agreeing < max(2, _NEARLY_ALL * len(skews_ns)):
        return {}
    return {node: skew_ns if abs(skew_ns) > COARSE_NS else 0 for node, skew_ns in skews_ns.items()}
