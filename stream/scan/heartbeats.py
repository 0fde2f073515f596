"""Many lines -> few heartbeats: liveness, completed steps, phases and ranks."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from epicenter.rules.liveness.progress import ROUND_NS, is_number
from epicenter.rules.liveness.streams import BUCKET_NS
from epicenter.rules.model.flat_heartbeats import facts_of
from epicenter.rules.model.heartbeats import (
    Advanced,
    Alive,
    CheckpointSaved,
    Heartbeat,
    LastStep,
    LineCut,
    MayAdvance,
    NodeCount,
    PhaseBegan,
    Step,
    WorldSize,
)
from epicenter.rules.model.records import LogEvent
from epicenter.rules.model.times import NS_PER_S


class Heartbeats:
    """The earliest line of each step of a rank in a round, of each phase of a job in a second, of each rank's place.

    Liveness is one heartbeat for each job, node, source and bucket of ten seconds, without the rank. So a batch sends
    no more heartbeats than it has ranks, steps and phases.
    """

    def __init__(self) -> None:
        self._first: dict[Hashable, Heartbeat] = {}

    def add_step(self, event: LogEvent, step: str, rank: str = "", compute_ns: int | None = None) -> None:
        """The line reports this step as done, optionally with its rank; text that is not a number is ignored."""
        if is_number(step, 16):
            self._add(event, ROUND_NS, Step, int(step), int(rank) if is_number(rank) else event.rank, compute_ns)
        self.add_alive(event)

    def add_progress(self, event: LogEvent) -> None:
        """The line reports progress without a step."""
        self._add(event, NS_PER_S, Advanced)
        self.add_alive(event)

    def add_until(self, event: LogEvent, until_ns: int) -> None:
        """The line reports progress at an unknown time before this one."""
        self._add(event, NS_PER_S, MayAdvance, until_ns)

    def add_phase(self, event: LogEvent, phase: str) -> None:
        """The line reports that a phase longer than a step begins or ends."""
        self._add(event, NS_PER_S, PhaseBegan, phase)
        self.add_alive(event)

    def add_place(self, event: LogEvent, rank: str, world_size: str) -> None:
        """The line names its rank and the world size."""
        number = int(rank) if is_number(rank) else event.rank
        if is_number(world_size) and int(world_size):
            self._add(event, BUCKET_NS, WorldSize, int(world_size), number)
        else:
            self._add(event, BUCKET_NS, Alive, number)
        self.add_alive(event)

    def add_node_count(self, event: LogEvent, count: str) -> None:
        """The line names the job's node count; text that is not a positive number is ignored."""
        if is_number(count) and int(count):
            self._add(event, BUCKET_NS, NodeCount, int(count))

    def add_saved(self, event: LogEvent, step: str) -> None:
        """The line reports that the checkpoint of this step is complete."""
        if is_number(step, 16):
            self._add(event, NS_PER_S, CheckpointSaved, int(step))

    def add_last(self, event: LogEvent, step: str) -> None:
        """The line reports this step as the job's last."""
        if is_number(step, 16):
            self._add(event, NS_PER_S, LastStep, int(step))

    def add_alive(self, event: LogEvent) -> None:
        """The line shows that its node and job are alive."""
        self._add(event, BUCKET_NS, Alive, None)

    def add_cut(self, event: LogEvent) -> None:
        """The line ends in the middle."""
        self._add(event, NS_PER_S, LineCut, event.rank)

    def sorted(self) -> list[Heartbeat]:
        """All heartbeats, in an order that does not depend on the lines' order."""
        return sorted(self._first.values(), key=heartbeat_order)

    def _add(self, event: LogEvent, length_ns: int, kind: Callable[..., Heartbeat], *facts: int | str | None) -> None:
        """Keep the earliest heartbeat of each kind and content in a period of `length_ns`."""
        time_ns, source = event.event_time_ns, event.source or "worker"
        key = (kind, event.cluster, event.job, event.node, source, facts, time_ns // length_ns)
        known = self._first.get(key)
        if known is None or time_ns < known.event_time_ns:
            self._first[key] = kind(time_ns, event.cluster, event.job, event.node, *facts, source=source)


def heartbeat_order(heartbeat: Heartbeat) -> tuple[int, str, str, str, int, int, str, str, int, int, int]:
    """By time; the rest makes the order the same everywhere."""
    step, rank, phase, world_size, saved_step, compute_ns = facts_of(heartbeat)
    return (
        heartbeat.event_time_ns,
        heartbeat.cluster,
        heartbeat.job,
        heartbeat.node,
        -1 if step is None else step,
        -1 if rank is None else rank,
        heartbeat.source,
        phase,
        world_size,
        -1 if saved_step is None else saved_step,
        -1 if compute_ns is None else compute_ns,
    )
