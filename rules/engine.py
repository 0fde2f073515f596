"""The whole core behind one door: matches and beats in, incidents out, with time as an input."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

import msgspec

from rules.correlate import Correlator, IncidentState
from rules.model import NS_PER_S, Beat, Incident, Match, Progress, Signal, stable_id
from rules.progress import JobProgress
from rules.report import progress_report, report
from rules.ruleset import Rule, RuleSet
from rules.signal import signal_of

RESOLVE_AFTER_NS: Final = 3600 * NS_PER_S
"""Quiet time after which an incident is over: longer than any causal delay."""

STEPS_TO_RECOVER: Final = 3
STALL_FLOOR_NS: Final = 900 * NS_PER_S

_KEY_BREAK: Final = "\x1f"

_Order = tuple[int, int, str, str, str, int, int, str, str]


class Counts(msgspec.Struct):
    """What happened to the input, so that the books balance."""

    signals: int = 0
    late: int = 0
    duplicate: int = 0
    alone: int = 0
    unknown: int = 0


class EngineState(msgspec.Struct):
    """Everything that the engine knows; it goes into a snapshot as it is."""

    watermark_ns: int = 0
    waiting: list[tuple[_Order, int, Match | None, Beat | None]] = []
    added: int = 0
    timers: list[tuple[int, str, str]] = []
    correlator: Correlator = msgspec.field(default_factory=Correlator)
    progress_by_job: dict[str, JobProgress] = {}
    counts: Counts = msgspec.field(default_factory=Counts)


class Engine:
    """Matches and beats wait until the watermark passes them, then are taken in event-time order.

    So the arrival order within the allowed lateness, and the size of the pieces in which input comes, change nothing.
    What comes later than that is counted as late and still joins its incident.
    """

    def __init__(self, rules: RuleSet, snapshot: bytes | None = None):
        self._rules = rules
        self._stall_rules = [rule for rule in rules.rules if rule.spec.detect == "no-progress"]
        self._state = msgspec.msgpack.decode(snapshot, type=EngineState) if snapshot else EngineState()
        self._changed: dict[str, IncidentState] = {}

    @property
    def counts(self) -> Counts:
        """What happened to the input so far."""
        return self._state.counts

    @property
    def watermark_ns(self) -> int:
        """Everything before this time has been taken."""
        return self._state.watermark_ns

    def snapshot(self) -> bytes:
        """The state as bytes; `Engine(rules, snapshot)` goes on from there."""
        return msgspec.msgpack.encode(self._state)

    def add(self, matches: Iterable[Match], beats: Iterable[Beat] = ()) -> None:
        """Note matches and beats, in any order."""
        for match in matches:
            self._state.counts.late += match.event.event_time_ns <= self._state.watermark_ns
            self._wait(_match_order(match), match, None)
        for beat in beats:
            self._wait(_beat_order(beat), None, beat)

    def advance(self, watermark_ns: int) -> list[Incident]:
        """Take everything up to the watermark, end included; the incidents that changed, as they stand then."""
        while (due_ns := self._next_due_ns()) is not None and due_ns <= watermark_ns:
            if self._state.waiting and self._state.waiting[0][0][0] <= due_ns:
                _, _, match, beat = heappop(self._state.waiting)
                if match:
                    self._take_match(match)
                if beat:
                    self._take_beat(beat)
            else:
                self._fire(*heappop(self._state.timers))
        self._state.watermark_ns = max(self._state.watermark_ns, watermark_ns)
        return self._reports()

    def flush(self) -> list[Incident]:
        """Take all that waits: the input has ended."""
        newest_ns = max((order[0] for order, *_ in self._state.waiting), default=0)
        return self.advance(max(newest_ns, self._state.watermark_ns))

    def _wait(self, order: _Order, match: Match | None, beat: Beat | None) -> None:
        self._state.added += 1
        heappush(self._state.waiting, (order, self._state.added, match, beat))

    def _next_due_ns(self) -> int | None:
        heads = [order[0] for order, *_ in self._state.waiting[:1]] + [due_ns for due_ns, *_ in self._state.timers[:1]]
        return min(heads, default=None)

    def _take_match(self, match: Match) -> None:
        if match.rule not in self._rules.by_id:
            self._state.counts.unknown += 1
            return
        signal = signal_of(self._rules, match)
        progress = self._state.progress_by_job.get(_job_key(signal.cluster, signal.job, signal.node))
        if progress and signal.role in ("teardown", "finished"):
            progress.has_ended = True
        self._place(signal.cluster, signal.node, signal.job, signal.event_time_ns)
        self._correlate(signal)

    def _place(self, cluster: str, node: str, job: str, time_ns: int) -> None:
        for incident in self._state.correlator.place(cluster, node, job, time_ns):
            self._touch(incident)

    def _correlate(self, signal: Signal) -> None:
        counts, correlator = self._state.counts, self._state.correlator
        counts.signals += 1
        changed = correlator.take(signal)
        if not changed:
            is_known = any(signal.signal_id in incident.seen for incident in correlator.open.values())
            counts.duplicate += is_known
            counts.alone += not is_known
        for incident in changed:
            self._touch(incident)
            if incident.status == "open":
                heappush(
                    self._state.timers, (incident.last_seen_ns + RESOLVE_AFTER_NS, "resolve", incident.incident_id)
                )

    def _take_beat(self, beat: Beat) -> None:
        self._place(beat.cluster, beat.node, beat.job, beat.event_time_ns)
        if beat.step is None:
            return
        key = _job_key(beat.cluster, beat.job, beat.node)
        progress = self._state.progress_by_job.get(key)
        if progress is None:
            place = ("", beat.node) if not beat.job else (beat.job, "")
            progress = self._state.progress_by_job[key] = JobProgress(STALL_FLOOR_NS, beat.cluster, *place)
        if not progress.step(beat.step, beat.event_time_ns):
            return
        self._note_recovery(beat.cluster, beat.job)
        if progress.stall_due_ns is not None:
            heappush(self._state.timers, (progress.stall_due_ns, "stall", key))

    def _note_recovery(self, cluster: str, job: str) -> None:
        for incident in list(self._state.correlator.open.values()):
            if job in incident.jobs and cluster == incident.cluster:
                incident.steps_since[job] = incident.steps_since.get(job, 0) + 1
                if all(incident.steps_since.get(one, 0) >= STEPS_TO_RECOVER for one in incident.jobs):
                    self._resolve(incident)

    def _fire(self, due_ns: int, kind: str, key: str) -> None:
        if kind == "resolve":
            incident = self._state.correlator.open.get(key)
            if incident and incident.last_seen_ns + RESOLVE_AFTER_NS == due_ns:
                self._resolve(incident)
            return
        progress = self._state.progress_by_job[key]
        if progress.stall_due_ns != due_ns:
            return
        progress.is_stalled = True
        for rule in self._stall_rules:
            self._correlate(_stall_signal(rule, progress, due_ns))

    def _resolve(self, incident: IncidentState) -> None:
        incident.status = "resolved"
        del self._state.correlator.open[incident.incident_id]
        self._touch(incident)

    def _touch(self, incident: IncidentState) -> None:
        incident.revision += 1
        incident.progress = self._progress_of(incident)
        self._changed[incident.incident_id] = incident

    def _reports(self) -> list[Incident]:
        changed, self._changed = self._changed, {}
        return [report(incident, self._rules) for incident in changed.values()]

    def _progress_of(self, incident: IncidentState) -> dict[str, Progress]:
        found = {job: self._state.progress_by_job.get(_job_key(incident.cluster, job, "")) for job in incident.jobs}
        return {job: progress_report(progress) for job, progress in sorted(found.items()) if progress}


def _match_order(match: Match) -> _Order:
    event = match.event
    rank = -1 if event.rank is None else event.rank
    place = event.position
    who = (event.node, event.source, event.job, rank)
    return (event.event_time_ns, 1, *who, place.offset, match.match_id, place.source)


def _beat_order(beat: Beat) -> _Order:
    return (beat.event_time_ns, 0, beat.node, "", beat.job, -1 if beat.step is None else beat.step, 0, beat.cluster, "")


def _job_key(cluster: str, job: str, node: str) -> str:
    return _KEY_BREAK.join((cluster, "job", job) if job else (cluster, "node", node))


def _stall_signal(rule: Rule, progress: JobProgress, due_ns: int) -> Signal:
    who = (progress.cluster, progress.job, progress.node)
    return Signal(
        signal_id=stable_id("stall", *who, progress.last_step, progress.last_step_ns),
        rule=rule.spec.id,
        failure_class=rule.spec.failure_class,
        severity=rule.spec.severity,
        role=rule.spec.role,
        event_time_ns=due_ns,
        onset_ns=progress.last_step_ns,
        cluster=progress.cluster,
        node=progress.node,
        source="worker",
        job=progress.job,
        rank=None,
        gpu="",
        text=progress.sentence(),
        position=None,
        fields={},
    )
