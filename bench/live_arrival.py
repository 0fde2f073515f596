"""Reads a folder while a simulated cluster writes it, in simulated time: lines come late and out of order, as live."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from epicenter.ingest.collect.source import Sources
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.local.pipeline import Pipeline

READS_EVERY_S: Final = 2.0


class LiveArrival:
    """As `epicenter run` follows a folder: each round reads every file, then event time advances."""

    def __init__(self, pipeline: Pipeline, folder: Path, start_ns: int):
        self._pipeline = pipeline
        self._folder = folder
        self._now_ns = start_ns
        self._newest_read_ns = start_ns
        self._since_round_s = 0.0
        self._sources: Sources | None = None
        self._newest: dict[str, Incident] = {}

    def wait(self, length_s: float) -> None:
        """Let simulated time pass; read when it is time for it."""
        self._now_ns += round(length_s * NS_PER_S)
        self._since_round_s += length_s
        if self._since_round_s >= READS_EVERY_S:
            self._since_round_s = 0.0
            self._round()

    def finish(self) -> list[Incident]:
        """Read the rest; the final state of every incident, first seen first."""
        self._round()
        self._pipeline.rest()
        self._record(self._pipeline.flush())
        final = [incident for incident in self._newest.values() if not incident.merged_into]
        return sorted(final, key=lambda incident: (incident.first_seen, incident.incident_id))

    def _round(self) -> None:
        if self._sources is None:
            self._sources = Sources([str(self._folder)], host="", follow=True)
        self._sources.open_new_files()
        for source in self._sources.all():
            while batch := self._sources.read(source, self._now_ns):
                self._newest_read_ns = self._now_ns
                self._pipeline.process(batch, self._now_ns)
        self._pipeline.overdue(self._now_ns)
        self._record(self._pipeline.advance((), self._now_ns - self._newest_read_ns))

    def _record(self, incidents: Iterable[Incident]) -> None:
        self._newest |= {incident.incident_id: incident for incident in incidents}
