"""Many lines -> few beats: who was alive, which steps were done, which phases began, which ranks took their place."""

from __future__ import annotations

from rules.model import NS_PER_S, Beat, LogEvent
from rules.progress import ROUND_NS, is_number
from rules.silence.streams import BUCKET_NS

_Key = tuple[str, str, str, str, int | None, int | None, int]


class Beats:
    """The earliest line of each step of a rank in a round, of each phase of a job in a second, of each rank's place.

    Liveness is told once for each job, node, source and bucket of ten seconds, and never by rank. So a batch sends no
    more beats than it has ranks, steps and phases.
    """

    def __init__(self) -> None:
        self._first: dict[_Key, Beat] = {}

    def add_step(self, event: LogEvent, step: str, rank: str = "") -> None:
        """The line says that this step is done, and maybe by which rank; text that is no step is passed over."""
        if is_number(step, 16):
            self._add(event, ROUND_NS, step=int(step), rank=int(rank) if is_number(rank) else event.rank)
        self.add_alive(event)

    def add_progress(self, event: LogEvent) -> None:
        """The line says that the job gets further, and not how far."""
        self.add_phase(event, "progress")

    def add_phase(self, event: LogEvent, phase: str) -> None:
        """The line says that the job begins or ends something that takes longer than a step."""
        self._add(event, NS_PER_S, phase=phase)
        self.add_alive(event)

    def add_place(self, event: LogEvent, rank: str, world_size: str) -> None:
        """The line says which of how many ranks it comes from."""
        own = int(rank) if is_number(rank) else event.rank
        self._add(event, BUCKET_NS, rank=own, world_size=int(world_size) if is_number(world_size) else 0)
        self.add_alive(event)

    def add_node_count(self, event: LogEvent, count: str) -> None:
        """The line says on how many nodes the job is started; text that is no number is passed over."""
        if is_number(count):
            self._add(event, BUCKET_NS, phase="nodes", world_size=int(count))

    def add_saved(self, event: LogEvent, step: str) -> None:
        """The line says that the checkpoint of this step is complete."""
        if is_number(step, 16):
            self._add(event, NS_PER_S, phase="checkpoint", saved_step=int(step))

    def add_alive(self, event: LogEvent) -> None:
        """The line says that its node is alive, and that its job is there."""
        self._add(event, BUCKET_NS)

    def add_cut(self, event: LogEvent) -> None:
        """The line ends in the middle."""
        self._add(event, NS_PER_S, phase="cut", rank=event.rank)

    def sorted(self) -> list[Beat]:
        """All beats, in an order that does not depend on the lines' order."""
        return sorted(self._first.values(), key=beat_order)

    def _add(
        self,
        event: LogEvent,
        length_ns: int,
        step: int | None = None,
        rank: int | None = None,
        phase: str = "",
        world_size: int = 0,
        saved_step: int | None = None,
    ) -> None:
        time_ns, source = event.event_time_ns, event.source or "worker"
        number = -1 - world_size if world_size else step if saved_step is None else saved_step
        key = (event.cluster, event.job, event.node, source + phase, rank, number, time_ns // length_ns)
        known = self._first.get(key)
        if known is None or time_ns < known.event_time_ns:
            who = (event.cluster, event.job, event.node)
            self._first[key] = Beat(time_ns, *who, step, rank, source, phase, world_size, saved_step)


def beat_order(beat: Beat) -> tuple[int, str, str, str, int, int, str, str, int, int]:
    """By time; the rest makes the order the same everywhere."""
    step = -1 if beat.step is None else beat.step
    rank = -1 if beat.rank is None else beat.rank
    place = (beat.cluster, beat.job, beat.node)
    saved_step = -1 if beat.saved_step is None else beat.saved_step
    return (beat.event_time_ns, *place, step, rank, beat.source, beat.phase, beat.world_size, saved_step)
