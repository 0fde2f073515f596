"""The lifecycle of incidents: pending, open, resolved, reopened; and which runs of a job failed before."""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heappop, heappush
from typing import Final

import msgspec

from epicenter.rules.cause.exceptions import is_caught, is_uncaught
from epicenter.rules.cause.ranking import Relations
from epicenter.rules.cause.survival import is_survived
from epicenter.rules.correlate.attempts import Attempt, Attempts
from epicenter.rules.correlate.correlator import Correlator
from epicenter.rules.correlate.keys import JOB
from epicenter.rules.correlate.pending import is_in_passing
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.liveness.verdict import STRAGGLER
from epicenter.rules.model.heartbeats import Advanced, Step
from epicenter.rules.model.incident import Resolution
from epicenter.rules.model.job_names import jobs_in_words
from epicenter.rules.model.signals import CLOCK_SKEW_NS, Signal
from epicenter.rules.model.times import NS_PER_S

RESOLVE_AFTER_NS: Final = 3600 * NS_PER_S
"""Quiet time after which an incident is resolved: longer than any causal delay."""

STEPS_TO_RECOVER: Final = 3
STEPS_TO_REFUTE: Final = 1
"""An incident that consists only of verdicts on a stop is resolved by the next step."""

STEPS_TO_SURVIVE: Final = 2
"""A job that makes this many steps after a lone error has survived it."""

MAX_HOLD_NS: Final = 300 * NS_PER_S
MAX_PENDING_NS: Final = 1800 * NS_PER_S
"""While its jobs may pause, or still write, a lone error stays pending for at most this long."""

OUTLASTED_NS: Final = 900 * NS_PER_S
"""A job that still writes this long after an exception that it caught has survived it."""

MAX_SHOWN_TEXT: Final = 160

REOPENED_TO_FLAP: Final = 3
"""An incident reopened this often is resolved only by quiet time, no longer by progress."""

_OUTLASTS_PROGRESS = frozenset(
    ("nan-loss", "loss-divergence", "straggler", "slow-gpu", "gpu-thermal", "gpu-memory-leak", "nccl-fallback-socket")
)

AttemptOf = Callable[[IncidentState, int], Attempt]
"""Makes the record of the run that an incident ended, at a time in ns."""

ReportsWithin = Callable[[str, str, int], int]
"""How long a job of a cluster takes for so many more reported steps, in ns; 0 if it is unknown."""

NextExpected = Callable[[str, str], int]
"""Until when a job may make no step as usual or announced, in ns, by cluster and job; 0 if it is unknown."""


class Lifecycle(msgspec.Struct):
    """The incidents, with timers for what happens to them if nothing else does."""

    correlator: Correlator = msgspec.field(default_factory=Correlator)
    attempts: Attempts = msgspec.field(default_factory=Attempts)
    timers: list[tuple[int, str]] = []

    def on_signal(
        self, signal: Signal, relations: Relations, reports_within: ReportsWithin, found_ns: int = 0
    ) -> list[IncidentState]:
        """Add a signal to its incident; return the incidents that changed.

        `found_ns` is when a late signal was found, else 0. Its clock may be wrong, so what it opens is quiet only
        an hour after that, unless its jobs have trained on since.
        """
        changed = self.correlator.on_signal(signal, relations)
        for incident in changed:
            if incident.status == "open":
                if found_ns > incident.last_seen_ns and not is_survived(signal, incident.trained.values()):
                    incident.found_ns = found_ns
                if not incident.has_timer:
                    self._set_timer(incident, reports_within)
        return changed

    def on_step(
        self, heartbeat: Step | Advanced, is_restart: bool, is_recovering: bool, attempt_of: AttemptOf
    ) -> list[IncidentState]:
        """A job advanced: resolve and return the incidents that this ends. A step from before one came late.

        That a job survived a pending error is shown by steps so much later that clocks don't matter. Other jobs of its
        node, such as servers, may make none; but what is on the node may yet explain a failure of theirs. A job that a
        straggler holds back recovers from nothing, but survives what is pending.
        """
        over, key = [], f"{JOB}/{heartbeat.cluster}/{heartbeat.job}"
        if is_restart:
            self.correlator.leave_behind(key, heartbeat.event_time_ns)
        for incident_id in list(self.correlator.by_key.get(key, ())):
            incident = self.correlator.open[incident_id]
            clocks_ns = CLOCK_SKEW_NS if incident.pending_until_ns else 0
            counts = is_recovering or incident.pending_until_ns
            if heartbeat.event_time_ns < incident.first_onset_ns + clocks_ns or not counts:
                continue
            incident.steps_since[heartbeat.job] = incident.steps_since.get(heartbeat.job, 0) + 1
            incident.is_restarted |= is_restart
            jobs = incident.failing_jobs() if incident.pending_until_ns else incident.jobs
            fewest = min(incident.steps_since.get(job, 0) for job in jobs)
            if incident.pending_until_ns and fewest >= STEPS_TO_SURVIVE:
                if jobs == incident.jobs:
                    self.correlator.forget(incident)
                else:
                    self.correlator.drop(incident)
            elif fewest >= _steps_to_end(incident) and _ends_by_progress(incident):
                how = "restarted and completed" if incident.is_restarted else "completed"
                why = f"{jobs_in_words(sorted(incident.jobs))} {how} {fewest} more step{'s' * (fewest > 1)}"
                self._resolve(incident, heartbeat.event_time_ns, Resolution.PROGRESS, why, attempt_of)
                over.append(incident)
        return over

    def clear(self, signal: Signal, classes: Collection[str], attempt_of: AttemptOf) -> list[IncidentState]:
        """A line reports that failures of these classes are over on its node: resolve and return what this ends."""
        over = self.correlator.clear(signal, classes)
        for incident in over:
            if incident.pending_until_ns:
                self.correlator.drop(incident)
            else:
                why = f"cleared: {signal.text[:MAX_SHOWN_TEXT]}"
                self._resolve(incident, signal.event_time_ns, Resolution.CLEARED, why, attempt_of)
        return over

    @property
    def next_due_ns(self) -> int | None:
        """When the next timer is due."""
        return self.timers[0][0] if self.timers else None

    def fire(self, attempt_of: AttemptOf, next_expected: NextExpected, relations: Relations) -> list[IncidentState]:
        """Fire the first timer; return the incidents that changed."""
        due_ns, incident_id = heappop(self.timers)
        incident = self.correlator.open.get(incident_id)
        if incident is None:
            return []
        if incident.pending_until_ns and (later_ns := _pending_until_ns(incident, next_expected)) > due_ns:
            heappush(self.timers, (later_ns, incident_id))
            return []
        if incident.pending_until_ns and _has_outlasted(incident, due_ns, next_expected):
            self.correlator.forget(incident)
            return []
        over_ns = incident.quiet_since_ns + RESOLVE_AFTER_NS
        if over_ns <= due_ns:
            why = f"quiet for {RESOLVE_AFTER_NS // NS_PER_S // 60} minutes"
            self._resolve(incident, due_ns, Resolution.QUIET, why, attempt_of)
            return [incident]
        heappush(self.timers, (over_ns, incident_id))
        return self._release(incident, relations)

    def release_all(self, relations: Relations) -> list[IncidentState]:
        """The input has ended: pending incidents become open, unless a step followed; return them."""
        ended = [incident for incident in self.correlator.open.values() if not any(incident.steps_since.values())]
        return [released for incident in ended for released in self._release(incident, relations)]

    def end_untimed(self, relations: Relations) -> list[IncidentState]:
        """Input without times has ended: as `release_all`; nothing that is open is over because time passes."""
        self.timers.clear()
        for incident in self.correlator.open.values():
            incident.has_timer = False
        return self.release_all(relations)

    def _release(self, incident: IncidentState, relations: Relations) -> list[IncidentState]:
        is_pending = incident.pending_until_ns and incident.incident_id in self.correlator.open
        return self.correlator.release(incident, relations) if is_pending else []

    def _set_timer(self, incident: IncidentState, reports_within: ReportsWithin) -> None:
        incident.has_timer = True
        due_ns = incident.quiet_since_ns + RESOLVE_AFTER_NS
        if incident.pending_until_ns:
            waits_ns = (reports_within(incident.cluster, job, STEPS_TO_SURVIVE) for job in incident.jobs)
            late_ns = incident.quiet_since_ns - incident.last_seen_ns
            incident.pending_until_ns += late_ns + min(MAX_HOLD_NS, max(waits_ns, default=0))
            due_ns = incident.pending_until_ns
        heappush(self.timers, (due_ns, incident.incident_id))

    def _resolve(
        self, incident: IncidentState, time_ns: int, resolution: Resolution, why: str, attempt_of: AttemptOf
    ) -> None:
        self.correlator.resolve(incident, time_ns, resolution, why)
        incident.has_timer = False
        has_ended_a_run = resolution is not Resolution.PROGRESS or incident.is_restarted
        for job in sorted(incident.jobs) if has_ended_a_run else ():
            self.attempts.add(f"{incident.cluster}/{job}", attempt_of(incident, time_ns))


def _pending_until_ns(incident: IncidentState, next_expected: NextExpected) -> int:
    """Until when its jobs may make the steps that show that they survived it."""
    if any(map(is_uncaught, incident.signals())):
        return 0
    return min(_next_expected_ns(incident, next_expected), incident.first_onset_ns + MAX_PENDING_NS)


def _has_outlasted(incident: IncidentState, now_ns: int, next_expected: NextExpected) -> bool:
    """Whether one of its jobs, whose steps no rule knows, still writes long after the newest error that it caught."""
    are_caught = all(is_caught(signal) or is_in_passing(signal) for signal in incident.signals())
    is_quiet = incident.last_seen_ns + OUTLASTED_NS <= now_ns
    return are_caught and is_quiet and _next_expected_ns(incident, next_expected) > now_ns


def _next_expected_ns(incident: IncidentState, next_expected: NextExpected) -> int:
    return max((next_expected(incident.cluster, job) for job in incident.jobs), default=0)


def _steps_to_end(incident: IncidentState) -> int:
    verdicts = {signal.fields.get("verdict", "") for signal in incident.signals() if signal.position is None}
    is_a_stop = verdicts.isdisjoint(("", STRAGGLER)) and all(signal.position is None for signal in incident.signals())
    return STEPS_TO_REFUTE if is_a_stop else STEPS_TO_RECOVER


def _ends_by_progress(incident: IncidentState) -> bool:
    lasting = [signal for name in _OUTLASTS_PROGRESS for signal in incident.signals_by_class.get(name, ())]
    are_from_liveness = all(signal.position is None for signal in lasting)
    return incident.reopened < REOPENED_TO_FLAP and are_from_liveness
