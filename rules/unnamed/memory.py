"""How often each message that no rule names came, where, and before what, in bounded memory."""

from __future__ import annotations

from typing import Final

import msgspec

from epicenter.rules.model.signals import TEMPLATE_FIELD, Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.model.unusual import Unusual

MAX_MESSAGES: Final = 10_000
"""At most this many messages are known; the one that was silent for longest is forgotten first."""

MAX_LINES: Final = 50
"""A message that came more often in a cluster is one of its habits, and explains nothing."""

MAX_JOBS: Final = 4
"""Of a message, the newest this many jobs are known, with at most `MAX_PLACES` nodes and ranks of each."""

MAX_PLACES: Final = 8
MAX_HOURS: Final = 200
"""The newest this many hours of a cluster in which an incident opened are known."""

MAX_RECENT_JOBS: Final = 1_000
MAX_RECENT_MESSAGES: Final = 8
"""Of a job, the newest this many messages count if it stops."""

STOPS_WITHIN_NS: Final = 600 * NS_PER_S
_HOUR_NS: Final = 3600 * NS_PER_S


class JobLines(msgspec.Struct, array_like=True):
    """The lines of a message in a job. `is_whole`: from its first one on."""

    is_whole: bool
    first_ns: int
    nodes: dict[str, int] = {}
    ranks: set[int] = set()
    stops: int = 0

    def record(self, signal: Signal) -> None:
        """Add a line."""
        if signal.node and len(self.nodes) < MAX_PLACES:
            self.nodes.setdefault(signal.node, signal.event_time_ns)
        if signal.rank is not None and len(self.ranks) < MAX_PLACES:
            self.ranks.add(signal.rank)


class Message(msgspec.Struct, array_like=True):
    """The lines of a message in a cluster. `is_whole`: from its first one on. `hour` is that of the newest line."""

    is_whole: bool
    first_ns: int
    lines: int = 0
    hour: int = 0
    healthy_hours: int = 0
    stops: int = 0
    has_forgotten: bool = False
    by_job: dict[str, JobLines] = {}

    def record(self, signal: Signal) -> None:
        """Add a line."""
        self.lines += 1
        if self.lines > MAX_LINES:
            self.by_job.clear()
            return
        of_job = self.by_job.pop(signal.job, None) or JobLines(not self.has_forgotten, signal.event_time_ns)
        of_job.record(signal)
        self.by_job[signal.job] = of_job
        if len(self.by_job) > MAX_JOBS:
            del self.by_job[next(iter(self.by_job))]
            self.has_forgotten = True

    def first_in(self, signal: Signal, of_job: JobLines) -> str | None:
        """In what the line was the first of its message; None if unknown."""
        then_ns = signal.event_time_ns
        if self.is_whole and self.first_ns == then_ns:
            return "cluster"
        if of_job.is_whole and of_job.first_ns == then_ns and signal.job:
            return "job" if self.is_whole else None
        if signal.node not in of_job.nodes or not (of_job.is_whole and self.is_whole):
            return None
        is_first_there = of_job.nodes[signal.node] == then_ns and not self.has_forgotten
        of_other_jobs = (lines for job, lines in self.by_job.items() if job != signal.job)
        return "node" if is_first_there and all(signal.node not in lines.nodes for lines in of_other_jobs) else ""


class UnnamedMemory(msgspec.Struct):
    """The messages by cluster and template, the newest last; `dropped` are the lines of habits.

    `eventful_hours` are those of each cluster in which an incident opened. `recent` has the newest messages of each
    job, with the time of the newest line.
    """

    messages: dict[str, Message] = {}
    dropped: int = 0
    forgotten: int = 0
    eventful_hours: dict[str, dict[int, None]] = {}
    recent: dict[str, dict[str, int]] = {}

    def admits(self, signal: Signal) -> bool:
        """Count a line; whether its message is still rare in the cluster."""
        name = _name(signal)
        message = self.messages.pop(name, None) or Message(not self.forgotten, signal.event_time_ns)
        self.messages[name] = message
        if len(self.messages) > MAX_MESSAGES:
            del self.messages[next(iter(self.messages))]
            self.forgotten += 1
        if (hour := signal.event_time_ns // _HOUR_NS) > message.hour:
            message.healthy_hours += message.hour > 0 and self._was_healthy(signal.cluster, message.hour)
            message.hour = hour
        message.record(signal)
        if message.lines > MAX_LINES:
            self.dropped += 1
            return False
        if signal.job:
            self._record_recent(f"{signal.cluster}/{signal.job}", name, signal.event_time_ns)
        return True

    def record_incident(self, cluster: str, time_ns: int) -> None:
        """An incident that hurts a job opened."""
        hours = self.eventful_hours.setdefault(cluster, {})
        hours[time_ns // _HOUR_NS] = None
        if len(hours) > MAX_HOURS:
            del hours[next(iter(hours))]

    def record_stop(self, cluster: str, job: str, time_ns: int) -> None:
        """A job stopped: what it said shortly before may be why."""
        for name, newest_ns in self.recent.pop(f"{cluster}/{job}", {}).items():
            message = self.messages.get(name)
            if message and newest_ns >= time_ns - STOPS_WITHIN_NS:
                message.stops += 1
                if of_job := message.by_job.get(job):
                    of_job.stops += 1

    def unusual(self, signal: Signal, of_nodes: int, of_ranks: int | None) -> Unusual | None:
        """How unusual the message of a line is by now; None if it is forgotten."""
        message = self.messages.get(_name(signal))
        of_job = message.by_job.get(signal.job) if message else None
        if message is None or of_job is None:
            return None
        has_ranks = signal.rank is not None and of_job.is_whole
        return Unusual(
            lines=message.lines,
            first_in=message.first_in(signal, of_job),
            node=signal.node,
            rank=signal.rank,
            nodes=len(of_job.nodes) if signal.node and of_job.is_whole else None,
            of_nodes=of_nodes or None,
            ranks=len(of_job.ranks) if has_ranks else None,
            of_ranks=of_ranks,
            healthy_hours=message.healthy_hours,
            stops=message.stops - of_job.stops,
        )

    def _was_healthy(self, cluster: str, hour: int) -> bool:
        hours = self.eventful_hours.get(cluster, {})
        is_known = len(hours) < MAX_HOURS or hour >= next(iter(hours))
        return is_known and hour not in hours

    def _record_recent(self, job: str, name: str, time_ns: int) -> None:
        of_job = self.recent.pop(job, {})
        of_job.pop(name, None)
        of_job[name] = time_ns
        if len(of_job) > MAX_RECENT_MESSAGES:
            del of_job[next(iter(of_job))]
        self.recent[job] = of_job
        if len(self.recent) > MAX_RECENT_JOBS:
            del self.recent[next(iter(self.recent))]


def _name(signal: Signal) -> str:
    return f"{signal.cluster}/{signal.fields.get(TEMPLATE_FIELD, '')}"
