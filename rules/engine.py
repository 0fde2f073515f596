"""The whole core behind one door: matches and beats in, incidents out, with time as an input."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

import msgspec

from rules.attempts import Attempt
from rules.cause import explains
from rules.completion import completed
from rules.incident import IncidentState
from rules.life import Life
from rules.model import NS_PER_S, Beat, Incident, Match, Progress, Seat, Signal, stable_id
from rules.progress import JobProgress
from rules.report import attempt_of, progress_report, report
from rules.ruleset import Rule, RuleSet
from rules.signal import signal_of

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
    waiting: list[tuple[_Order, int, Match | None, Beat | None, Seat | None]] = []
    added: int = 0
    timers: list[tuple[int, str, str]] = []
    life: Life = msgspec.field(default_factory=Life)
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
        correlator = self._state.life.correlator
        return msgspec.structs.replace(self._state.counts, alone=correlator.alone, duplicate=correlator.duplicate)

    @property
    def watermark_ns(self) -> int:
        """Everything before this time has been taken."""
        return self._state.watermark_ns

    def snapshot(self) -> bytes:
        """The state as bytes; `Engine(rules, snapshot)` goes on from there."""
        return msgspec.msgpack.encode(self._state)

    def add(self, matches: Iterable[Match], beats: Iterable[Beat] = (), seats: Iterable[Seat] = ()) -> None:
        """Note matches, beats and seats, in any order."""
        for match in matches:
            self._state.counts.late += match.event.event_time_ns <= self._state.watermark_ns
            self._wait(_match_order(match), match, None)
        for beat in beats:
            self._wait(_beat_order(beat), None, beat)
        for seat in seats:
            self._wait(_seat_order(seat), None, None, seat)

    def advance(self, watermark_ns: int) -> list[Incident]:
        """Take everything up to the watermark, end included; the incidents that changed, as they stand then."""
        while (due_ns := self._next_due_ns()) is not None and due_ns <= watermark_ns:
            if self._state.waiting and self._state.waiting[0][0][0] <= due_ns:
                _, _, match, beat, seat = heappop(self._state.waiting)
                if match:
                    self._take_match(match)
                if beat:
                    self._take_beat(beat)
                if seat:
                    self._take_seat(seat)
            elif self._state.timers and self._state.timers[0][0] <= due_ns:
                self._fire_stall(*heappop(self._state.timers))
            else:
                self._touch(self._state.life.fire(self._attempt_of))
        self._state.watermark_ns = max(self._state.watermark_ns, watermark_ns)
        return self._reports()

    def flush(self) -> list[Incident]:
        """Take all that waits: the input has ended."""
        newest_ns = max((order[0] for order, *_ in self._state.waiting), default=0)
        changed = self.advance(max(newest_ns, self._state.watermark_ns))
        self._touch(self._state.life.release_all())
        return changed + self._reports()

    def _wait(self, order: _Order, match: Match | None, beat: Beat | None, seat: Seat | None = None) -> None:
        self._state.added += 1
        heappush(self._state.waiting, (order, self._state.added, match, beat, seat))

    def _next_due_ns(self) -> int | None:
        waiting, timers, life_ns = self._state.waiting, self._state.timers, self._state.life.next_due_ns
        heads = (waiting[0][0][0] if waiting else None, timers[0][0] if timers else None, life_ns)
        return min((head for head in heads if head is not None), default=None)

    def _take_match(self, match: Match) -> None:
        if match.rule not in self._rules.by_id:
            self._state.counts.unknown += 1
            return
        signal = completed(signal_of(self._rules, match), self._state.life.correlator.placement)
        progress = self._state.progress_by_job.get(_job_key(signal.cluster, signal.job, signal.node))
        if progress and signal.role in ("teardown", "finished"):
            progress.has_ended = True
        self._place(signal.cluster, signal.node, signal.job, signal.event_time_ns)
        self._correlate(signal)

    def _place(self, cluster: str, node: str, job: str, time_ns: int) -> None:
        self._touch(self._state.life.correlator.place(cluster, node, job, time_ns))

    def _correlate(self, signal: Signal) -> None:
        self._state.counts.signals += 1
        self._touch(self._state.life.take(signal, self._related, lambda job: self._pace_ns(signal.cluster, job)))

    def _related(self, one: Signal, other: Signal) -> bool:
        jobs_of = self._state.life.correlator.jobs_of
        return any(
            explains(cause, effect, edge, jobs_of, self._rules.topology)
            for cause, effect in ((one, other), (other, one))
            for edge in self._rules.edges_between(cause.failure_class, effect.failure_class)
        )

    def _pace_ns(self, cluster: str, job: str) -> int:
        progress = self._state.progress_by_job.get(_job_key(cluster, job, ""))
        return progress.pace_ns or 0 if progress else 0

    def _attempt_of(self, incident: IncidentState, time_ns: int) -> Attempt:
        return attempt_of(incident, time_ns, self._rules)

    def _take_seat(self, seat: Seat) -> None:
        self._state.life.correlator.placement.take(seat)
        if seat.node and not seat.address:
            self._place(seat.cluster, seat.node, seat.job, seat.time_ns)

    def _take_beat(self, beat: Beat) -> None:
        self._place(beat.cluster, beat.node, beat.job, beat.event_time_ns)
        if beat.step is None:
            return
        key = _job_key(beat.cluster, beat.job, beat.node)
        progress = self._state.progress_by_job.get(key)
        if progress is None:
            place = ("", beat.node) if not beat.job else (beat.job, "")
            progress = self._state.progress_by_job[key] = JobProgress(STALL_FLOOR_NS, beat.cluster, *place)
        before = progress.last_step
        if not progress.step(beat.step, beat.event_time_ns):
            return
        self._touch(self._state.life.note_step(beat, beat.step < before, self._attempt_of))
        if progress.stall_due_ns is not None:
            heappush(self._state.timers, (progress.stall_due_ns, "stall", key))

    def _fire_stall(self, due_ns: int, kind: str, key: str) -> None:
        progress = self._state.progress_by_job[key]
        if progress.stall_due_ns != due_ns:
            return
        progress.is_stalled = True
        for rule in self._stall_rules:
            self._correlate(_stall_signal(rule, progress, due_ns))

    def _touch(self, incidents: Iterable[IncidentState]) -> None:
        for incident in incidents:
            incident.revision += 1
            incident.progress = self._progress_of(incident)
            if incident.revision == 1:
                self._look_back(incident)
            self._changed[incident.incident_id] = incident

    def _look_back(self, incident: IncidentState) -> None:
        jobs = [f"{incident.cluster}/{job}" for job in incident.jobs]
        incident.earlier = self._state.life.attempts.before(jobs, incident.incident_id, incident.last_seen_ns)
        incident.step_by_job = {job: progress.last_step for job, progress in incident.progress.items()}

    def _reports(self) -> list[Incident]:
        changed, self._changed = self._changed, {}
        told = [one for one in changed.values() if not one.held_until_ns]
        return [report(incident, self._rules) for incident in told]

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


def _seat_order(seat: Seat) -> _Order:
    """Beside beats: a line that tells who sits where comes before what else happens at that time."""
    world = str(seat.world_size if seat.is_start else -seat.world_size)
    rest = (seat.rank, seat.local_rank, seat.cluster, f"{seat.gpu}/{seat.address}")
    return (seat.time_ns, 0, seat.node, world, seat.job, *rest)


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
