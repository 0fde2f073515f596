"""The whole core behind one door: matches and beats in, incidents out, with time as an input."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

import msgspec

from rules.cause import explains
from rules.correlate import Correlator
from rules.incident import IncidentState
from rules.keys import JOB
from rules.model import NS_PER_S, Beat, Incident, Match, Progress, Signal, stable_id
from rules.progress import JobProgress
from rules.report import progress_report, report
from rules.ruleset import Rule, RuleSet
from rules.signal import signal_of

RESOLVE_AFTER_NS: Final = 3600 * NS_PER_S
"""Quiet time after which an incident is over: longer than any causal delay."""

STEPS_TO_RECOVER: Final = 3
STEPS_TO_SURVIVE: Final = 2
"""A job that got so far after a lone error of its program has survived it."""

LONGEST_HOLD_NS: Final = 60 * NS_PER_S
REOPENED_TO_FLAP: Final = 3
"""An incident reopened so often is no longer resolved by progress, only by quiet time."""

_OUTLASTS_PROGRESS = frozenset(
    ("nan-loss", "loss-divergence", "straggler", "slow-gpu", "gpu-thermal", "gpu-memory-leak", "nccl-fallback-socket")
)
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
        correlator = self._state.correlator
        return msgspec.structs.replace(self._state.counts, alone=correlator.alone, duplicate=correlator.duplicate)

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
        changed = self.advance(max(newest_ns, self._state.watermark_ns))
        for incident in list(self._state.correlator.open.values()):
            self._release(incident)
        return changed + self._reports()

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
        self._state.counts.signals += 1
        for incident in self._state.correlator.take(signal, self._related):
            self._touch(incident)
            if incident.status == "open":
                self._set_timers(incident)

    def _related(self, one: Signal, other: Signal) -> bool:
        jobs_of = self._state.correlator.jobs_of
        return any(
            explains(cause, effect, edge, jobs_of)
            for cause, effect in ((one, other), (other, one))
            for edge in self._rules.edges_between(cause.failure_class, effect.failure_class)
        )

    def _set_timers(self, incident: IncidentState) -> None:
        over_ns = incident.last_seen_ns + RESOLVE_AFTER_NS
        heappush(self._state.timers, (over_ns, "resolve", incident.incident_id))
        if incident.held_until_ns and incident.revision == 1:
            pace_ns = max((self._pace_ns(incident.cluster, job) for job in incident.jobs), default=0)
            incident.held_until_ns += min(LONGEST_HOLD_NS, STEPS_TO_SURVIVE * pace_ns)
            heappush(self._state.timers, (incident.held_until_ns, "settle", incident.incident_id))

    def _pace_ns(self, cluster: str, job: str) -> int:
        progress = self._state.progress_by_job.get(_job_key(cluster, job, ""))
        return progress.pace_ns or 0 if progress else 0

    def _release(self, incident: IncidentState) -> None:
        """Tell of an incident that was held back."""
        if incident.held_until_ns:
            incident.held_until_ns = 0
            self._touch(incident)

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
        self._note_recovery(beat)
        if progress.stall_due_ns is not None:
            heappush(self._state.timers, (progress.stall_due_ns, "stall", key))

    def _note_recovery(self, beat: Beat) -> None:
        correlator = self._state.correlator
        for incident_id in list(correlator.by_key.get(f"{JOB}/{beat.cluster}/{beat.job}", ())):
            incident = correlator.open[incident_id]
            incident.steps_since[beat.job] = incident.steps_since.get(beat.job, 0) + 1
            fewest = min(incident.steps_since.get(one, 0) for one in incident.jobs)
            if incident.held_until_ns and fewest >= STEPS_TO_SURVIVE:
                correlator.drop(incident)
            elif fewest >= STEPS_TO_RECOVER and _ends_by_progress(incident):
                self._resolve(incident, beat.event_time_ns, f"{_jobs(incident)} made {fewest} further steps")

    def _fire(self, due_ns: int, kind: str, key: str) -> None:
        if kind == "stall":
            self._fire_stall(due_ns, key)
            return
        incident = self._state.correlator.open.get(key)
        if incident is None:
            return
        if kind == "settle" and incident.held_until_ns == due_ns:
            self._release(incident)
        if kind == "resolve" and incident.last_seen_ns + RESOLVE_AFTER_NS == due_ns:
            self._resolve(incident, due_ns, f"quiet for {RESOLVE_AFTER_NS // NS_PER_S // 60} minutes")

    def _fire_stall(self, due_ns: int, key: str) -> None:
        progress = self._state.progress_by_job[key]
        if progress.stall_due_ns != due_ns:
            return
        progress.is_stalled = True
        for rule in self._stall_rules:
            self._correlate(_stall_signal(rule, progress, due_ns))

    def _resolve(self, incident: IncidentState, time_ns: int, why: str) -> None:
        self._state.correlator.resolve(incident, time_ns, why)
        self._touch(incident)

    def _touch(self, incident: IncidentState) -> None:
        incident.revision += 1
        incident.progress = self._progress_of(incident)
        self._changed[incident.incident_id] = incident

    def _reports(self) -> list[Incident]:
        changed, self._changed = self._changed, {}
        told = [one for one in changed.values() if not one.held_until_ns]
        return [report(incident, self._rules) for incident in told]

    def _progress_of(self, incident: IncidentState) -> dict[str, Progress]:
        found = {job: self._state.progress_by_job.get(_job_key(incident.cluster, job, "")) for job in incident.jobs}
        return {job: progress_report(progress) for job, progress in sorted(found.items()) if progress}


def _ends_by_progress(incident: IncidentState) -> bool:
    return incident.reopened < REOPENED_TO_FLAP and _OUTLASTS_PROGRESS.isdisjoint(incident.kept_by_class)


def _jobs(incident: IncidentState) -> str:
    return f"job {', '.join(sorted(incident.jobs))}"


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
