"""Reports the followed sources that can't be read: once when it begins, once when it is over, and as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from epicenter.ingest.collect.files import FileSource
from epicenter.ingest.collect.source import Sources
from epicenter.ingest.collect.source_faults import FaultChange
from epicenter.rules.liveness.gaps import unread_gap
from epicenter.rules.model.ledger import Gap
from epicenter.sinks.text.humanize import length
from epicenter.stream.local.pipeline import Pipeline
from epicenter.stream.metrics import Metrics

MAX_SHOWN: Final = 10
"""At most so many are named at once, in a report or in the answer about health."""


class SourceReport:
    """What `run` reports of its sources. `report` gets the sentences for people; `cluster` is that of most lines."""

    def __init__(self, sources: Sources, cluster: str, metrics: Metrics, report: Callable[[str], None]):
        self._sources = sources
        self._cluster = cluster
        self._metrics = metrics
        self._report = report
        self._watch_fault = ""

    def update(self, pipeline: Pipeline) -> None:
        """Report what began and ended since the last call; incidents then have gaps in their evidence."""
        changes = self._sources.take_fault_changes()
        self._report_some([_begun(change) for change in changes if not change.ends_ns])
        self._report_some([_ended(change) for change in changes if change.ends_ns])
        for change in changes:
            self._count(change)
            is_closed = bool(change.ends_ns) and not change.lost_bytes
            pipeline.record_unread(self._gap(change), is_closed)
        self._metrics.record_sources(self._sources.count, len(self._sources.failing))
        self._report_watch()

    def health(self) -> dict[str, object]:
        """For the page's answer about the health of the process."""
        failing = list(self._sources.failing.values())
        return {
            "sources": self._sources.count,
            "sources_failing": len(failing),
            "failing": [fault.text for fault in failing[:MAX_SHOWN]],
        }

    def _report_watch(self) -> None:
        if self._sources.watch_fault != self._watch_fault:
            self._watch_fault = self._sources.watch_fault
            self._report(self._watch_fault)

    def _report_some(self, sentences: list[str]) -> None:
        for sentence in sentences[:MAX_SHOWN]:
            self._report(sentence)
        if (rest := len(sentences) - MAX_SHOWN) > 0:
            self._report(f"the same for {rest:,} more files or folders: the page's /healthz has their number")

    def _count(self, change: FaultChange) -> None:
        if not change.ends_ns:
            self._metrics.record_source_failure()
        self._metrics.record_source_loss(change.lost_bytes)

    def _gap(self, change: FaultChange) -> Gap:
        fault = change.fault
        cluster, node, job = self._whose(fault.name)
        return unread_gap(cluster, node, job, fault.name, fault.begins_ns, change.ends_ns, fault.text)

    def _whose(self, name: str) -> tuple[str, str, str]:
        """The cluster, node and job of the source's lines, as far as they are known."""
        source = self._sources.find(name)
        if not isinstance(source, FileSource):
            return self._cluster, self._sources.host, ""
        origin = source.origin
        return origin.cluster or self._cluster, origin.node or source.host, origin.job


def _begun(change: FaultChange) -> str:
    return f"not read: {change.fault.text}; it is tried again until it can be read"


def _ended(change: FaultChange) -> str:
    fault, lost = change.fault, change.lost_bytes
    what = f"{lost:,} bytes were removed before they were read" if lost else "nothing is known to be lost"
    if not fault.tries:
        return f"lines lost: {fault.name}: {what}"
    return f"read again: {fault.name}, after {length(change.ends_ns - fault.begins_ns)}: {what}"
