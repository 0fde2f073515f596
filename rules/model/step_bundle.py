"""Many `Step`s of one node as one record, made where lines are matched: it means exactly these, one after the other."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, Self, final

import msgspec

from epicenter.rules.model.heartbeats import Heartbeat, Step

MIN_STEPS: Final = 2


@final
class StepBundle(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Ranks of one node that complete the same step of a job: each once, in the order of `Step`s, a column a fact."""

    cluster: str
    job: str
    node: str
    source: str
    step: int
    times_ns: tuple[int, ...]
    ranks: tuple[int | None, ...]
    compute_ns: tuple[int | None, ...]

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Self:
        """The bundle of these steps of one node."""
        ordered = sorted(steps, key=_time_and_rank)
        first = ordered[0]
        return cls(
            first.cluster,
            first.job,
            first.node,
            first.source,
            first.step,
            tuple([step.event_time_ns for step in ordered]),
            tuple([step.rank for step in ordered]),
            tuple([step.compute_ns for step in ordered]),
        )

    @classmethod
    def alone(cls, step: Step) -> Self:
        """The bundle of one step."""
        times_ns, ranks, compute_ns = (step.event_time_ns,), (step.rank,), (step.compute_ns,)
        return cls(step.cluster, step.job, step.node, step.source, step.step, times_ns, ranks, compute_ns)

    def step_at(self, number: int) -> Step:
        """One of its steps."""
        rank, compute_ns = self.ranks[number], self.compute_ns[number]
        who = (self.times_ns[number], self.cluster, self.job, self.node)
        return Step(*who, self.step, rank, compute_ns, source=self.source)

    def steps(self) -> Iterator[Step]:
        """The steps that it means."""
        return map(self.step_at, range(len(self.ranks)))

    def since(self, number: int) -> StepBundle:
        """Its steps from this one on."""
        times_ns, ranks, compute_ns = self.times_ns[number:], self.ranks[number:], self.compute_ns[number:]
        return StepBundle(self.cluster, self.job, self.node, self.source, self.step, times_ns, ranks, compute_ns)

    def count_until(self, time_ns: int) -> int:
        """How many of its steps come before this time."""
        return bisect_left(self.times_ns, time_ns)


def bundled(heartbeats: Iterable[Heartbeat]) -> tuple[list[StepBundle], list[Heartbeat]]:
    """The heartbeats with as many steps as possible in bundles, and the others. Both together mean the same as before.

    A rank's second report of a step stays alone.
    """
    by_step: dict[tuple[str, str, str, str, int], dict[int | None, Step]] = {}
    others: list[Heartbeat] = []
    for heartbeat in heartbeats:
        if type(heartbeat) is not Step or not (heartbeat.job and heartbeat.node):
            others.append(heartbeat)
            continue
        key = (heartbeat.cluster, heartbeat.job, heartbeat.node, heartbeat.source, heartbeat.step)
        if by_step.setdefault(key, {}).setdefault(heartbeat.rank, heartbeat) is not heartbeat:
            others.append(heartbeat)
    bundles = [StepBundle.of(steps.values()) for steps in by_step.values() if len(steps) >= MIN_STEPS]
    others += [step for steps in by_step.values() if len(steps) < MIN_STEPS for step in steps.values()]
    return bundles, others


def _time_and_rank(step: Step) -> tuple[int, int]:
    return step.event_time_ns, -1 if step.rank is None else step.rank
