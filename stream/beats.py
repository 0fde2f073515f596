"""Many lines -> few beats: who was alive, and which steps were done."""

from __future__ import annotations

from rules.model import Beat, LogEvent
from rules.progress import ROUND_NS


class Beats:
    """One beat for each step and round of a job, and the first and last of each job and node."""

    def __init__(self) -> None:
        self._first_by_step: dict[tuple[str, str, int, int], Beat] = {}
        self._ends_by_node: dict[tuple[str, str, str], tuple[Beat, Beat]] = {}

    def add_step(self, event: LogEvent, step: str) -> None:
        """The line says that this step is done; text that is no step is passed over."""
        if step.isascii() and step.isdigit() and len(step) < 16:
            beat = Beat(event.event_time_ns, event.cluster, event.job, event.node, int(step))
            key = (event.cluster, event.job or event.node, int(step), event.event_time_ns // ROUND_NS)
            self._first_by_step[key] = min(beat, self._first_by_step.get(key, beat))
        self.add_alive(event)

    def add_alive(self, event: LogEvent) -> None:
        """The line says that its job is on its node."""
        beat = Beat(event.event_time_ns, event.cluster, event.job, event.node)
        key = (event.cluster, event.job, event.node)
        first, last = self._ends_by_node.get(key, (beat, beat))
        self._ends_by_node[key] = min(first, beat, key=_beat_order), max(last, beat, key=_beat_order)

    def sorted(self) -> list[Beat]:
        """All beats, in an order that does not depend on the lines' order."""
        return [
            *sorted({beat for ends in self._ends_by_node.values() for beat in ends}, key=_beat_order),
            *sorted(self._first_by_step.values(), key=_beat_order),
        ]


def _beat_order(beat: Beat) -> tuple[int, str, str, str, int]:
    return (beat.event_time_ns, beat.cluster, beat.job, beat.node, -1 if beat.step is None else beat.step)
