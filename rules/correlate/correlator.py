"""Signal -> incident: which signals belong together. One failure is one incident, however many ranks report it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec

from epicenter.rules.cause.exceptions import is_caught
from epicenter.rules.cause.ranking import Relations
from epicenter.rules.cause.recovery import where
from epicenter.rules.cause.survival import cleared, is_survived
from epicenter.rules.correlate.broken_nodes import moment_keys
from epicenter.rules.correlate.harm import is_harmless
from epicenter.rules.correlate.keys import (
    FILE,
    FOLDER,
    HOLDS_NS,
    JOB,
    JOBLESS,
    KERNEL,
    MANY,
    NODE,
    is_node_wide,
    is_of_a_maker,
    jobless_keys,
    keys_of,
    keys_sought,
    kind_of,
)
from epicenter.rules.correlate.pending import HOLD_NS, START_NS, delays_a_start, is_handled, is_hard, is_soft
from epicenter.rules.correlate.state import IncidentState, place_of
from epicenter.rules.correlate.unattached import FORGET_AFTER_NS, UnattachedSignals
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.incident import Resolution
from epicenter.rules.model.ledger import Joined
from epicenter.rules.model.records import RankPlacement
from epicenter.rules.model.signals import ERRORS, TEMPLATE_FIELD, UNNAMED, Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.placement.placement import Placement

FIRST_LINE_WITHIN_NS: Final = 10 * NS_PER_S
"""A job whose first line on a node comes this soon after a failure there ran there already."""

MANY_NODES: Final = 3
"""This many nodes with the same failure at once have one cause, even if the topology is not known."""

REOPENS_FOR_NS: Final = 1800 * NS_PER_S
MAX_KEPT_RESOLVED: Final = 64
MAX_KEPT_ENDS: Final = 20_000
RETENTION_NS: Final = 24 * 3600 * NS_PER_S
"""Ends of jobs and resolved incidents that are older are forgotten."""

MAX_SKEW_NS: Final = 90 * NS_PER_S
"""What ends a job this soon after a failure is the same one, in spite of steps in between: clocks differ as much."""

SAME_MOMENT_NS: Final = 600 * NS_PER_S
ENDED_BEFORE_NS: Final = 5 * NS_PER_S
REASON_WITHIN_NS: Final = 30 * NS_PER_S
ENDED_FOR_NS: Final = 600 * NS_PER_S

_NEVER_OPENS = ("teardown", "advice", "confirmation", "finished")
_ENDS_A_JOB = ("slurm-cancelled", "cancelled")
_SCHEDULERS = ("slurm", "kubernetes")
_NEVER_CANCELLED = ("cuda", "memory")


class Correlator(msgspec.Struct):
    """Open incidents, recently resolved ones, and signals that belong to none yet.

    `by_key` maps each key to the incidents that have it, with the newest onset under it. The newest 64 resolved
    incidents may be reopened within half an hour. The ends of the newest 20,000 jobs of a day are known. `joined`
    collects the signals that joined incidents until the caller empties it.
    """

    open: dict[str, IncidentState] = {}
    by_key: dict[str, dict[str, int]] = {}
    resolved: dict[str, IncidentState] = {}
    unattached: UnattachedSignals = msgspec.field(default_factory=UnattachedSignals, name="loose")
    ended_ns_by_job: dict[str, int] = {}
    placement: Placement = msgspec.field(default_factory=Placement)
    alone: int = 0
    duplicate: int = 0
    joined: list[Joined] = []

    def on_placement(self, cluster: str, node: str, job: str, time_ns: int) -> list[IncidentState]:
        """Record that a job runs on a node at that time; jobs that ran there long before have left.

        If it is new there, incidents of the node's kernel are linked to the job. Returns the incidents that changed.
        """
        if not (node and job):
            return []
        is_new = self.placement.observe(cluster, node, job, time_ns)
        return self._link(cluster, node, job, time_ns) if is_new else []

    def on_listed_node(self, listed: RankPlacement) -> list[IncidentState]:
        """As `on_placement`, for a node that a list of the job's hosts names: it may have no lines."""
        is_new = self.placement.list_node(listed)
        return self._link(listed.cluster, listed.node, listed.job, listed.time_ns) if is_new else []

    def has_class(self, signal: Signal) -> bool:
        """Whether an open incident of the signal's job has its class already."""
        of_job = self.by_key.get(f"{JOB}/{signal.cluster}/{signal.job}", ())
        return any(signal.failure_class in self.open[incident_id].signals_by_class for incident_id in of_job)

    def jobs_of(self, signal: Signal) -> set[str]:
        """The jobs that a signal affects: its own, otherwise those on its node; none if it is about another process."""
        if signal.is_foreign:
            return set()
        if signal.job:
            return {signal.job}
        return self.placement.jobs_on(signal.cluster, signal.node, signal.event_time_ns)

    def under(self, key: str) -> Iterator[IncidentState]:
        """The open incidents with this key."""
        return (self.open[incident_id] for incident_id in self.by_key.get(key, ()))

    def first_opened(self, incidents: Collection[IncidentState]) -> IncidentState:
        """The one of these open incidents that was opened, or reopened, first."""
        ids = {incident.incident_id for incident in incidents}
        return self.open[next(incident_id for incident_id in self.open if incident_id in ids)]

    def on_signal(self, signal: Signal, relations: Relations) -> list[IncidentState]:
        """Add a signal to its incident, which may be a new one; return the incidents that changed."""
        jobs = self.jobs_of(signal)
        dropped = self._record_end(signal, jobs)
        found = self._homes(signal, jobs, relations)
        if any(map(_is_ticket, found)) and _is_error(signal) and is_soft(signal):
            found = [incident for incident in found if not _is_kept_apart(signal, incident)]
        if not found:
            if late := self._resolved_home(signal, jobs, relations):
                return [*dropped, *self._add_late(late, signal, jobs)]
            opens = _opens(signal)
            if not opens:
                self.unattached.add(signal, keys_of(signal, jobs))
            if not opens or self._follows_an_end(signal, jobs):
                self.alone += 1
                return dropped
            found = [self._reopened(signal, jobs, relations) or self._open(signal)]
        first, *others = found
        is_new_kind = signal.failure_class not in first.signals_by_class or signal.node not in first.nodes
        if not first.add(signal, jobs):
            self.duplicate += 1
            return dropped
        self.joined.append(Joined(first.incident_id, signal))
        self._index(first, signal, jobs)
        if _is_error(signal):
            first.record_training(signal, relations.spans(signal.cluster, jobs))
            first.hurts = first.hurts or not is_harmless(signal, first.jobs)
            if first.pending_until_ns and not is_soft(signal):
                first.pending_until_ns = 0
                first.steps_since.clear()
        for other in others:
            self._merge(other, first, f"{signal.failure_class}{place_of(signal)} affects both", signal.event_time_ns)
        if is_new_kind:
            self._take_unattached(first, signal, jobs, relations)
        return [*dropped, first, *others]

    def release(self, incident: IncidentState, relations: Relations) -> list[IncidentState]:
        """A pending incident was not survived: it is open from now on, and one with those that its errors belong to."""
        jobs_by_signal = [(signal, incident.jobs_of(signal)) for signal in incident.signals()]
        homes = [home for signal, jobs in jobs_by_signal for home in self._homes(signal, jobs, relations)]
        open_ones = {home.incident_id: home for home in homes if not home.pending_until_ns}
        if not open_ones:
            incident.pending_until_ns = 0
            return [incident]
        first, *others = sorted([incident, *open_ones.values()], key=_age)
        for other in others:
            self._merge(other, first, "a job did not survive it", incident.pending_until_ns)
        return [first, *others]

    def resolve(self, incident: IncidentState, time_ns: int, resolution: Resolution, why: str) -> None:
        """Resolve the incident; for `REOPENS_FOR_NS` it may be reopened."""
        incident.status, incident.resolved_ns, incident.resolved_by = "resolved", time_ns, resolution
        incident.record(time_ns, f"resolved: {why}")
        self._forget(incident)
        self._remember_latent(incident)
        self.resolved[incident.incident_id] = incident
        oldest_ns = time_ns - REOPENS_FOR_NS
        too_old = [name for name, resolved in self.resolved.items() if resolved.resolved_ns < oldest_ns]
        for forgotten in too_old or list(self.resolved)[: len(self.resolved) - MAX_KEPT_RESOLVED]:
            del self.resolved[forgotten]

    def forget(self, incident: IncidentState) -> None:
        """Its jobs survived a pending incident: drop it without a notification, and blame it for nothing later."""
        incident.status = "dropped"
        self._forget(incident)
        self._remember_latent(incident)

    def forgive(self, handled: Signal) -> None:
        """A process says that it continues: forget the pending incidents that consist of its newest errors."""
        for incident_id in list(self.by_key.get(f"{JOB}/{handled.cluster}/{handled.job}", ())):
            incident = self.open[incident_id]
            if incident.pending_until_ns and is_handled(incident.signals(), handled):
                self.forget(incident)

    def drop(self, incident: IncidentState) -> None:
        """A pending incident was no separate failure, but may explain a later one: drop it without a notification."""
        self.forget(incident)
        for signal in incident.signals():
            self.unattached.add(signal, keys_of(signal, incident.jobs_of(signal)))

    def forget_old(self, now_ns: int) -> list[str]:
        """Forget what is too old to belong to anything that happens now; return the jobs that ended long ago."""
        oldest_ns = now_ns - RETENTION_NS
        self.unattached.forget_before(now_ns - FORGET_AFTER_NS)
        self.ended_ns_by_job = {job: ended for job, ended in self.ended_ns_by_job.items() if ended >= oldest_ns}
        self.resolved = {name: found for name, found in self.resolved.items() if found.resolved_ns >= oldest_ns}
        incidents = chain(self.open.values(), self.resolved.values())
        of_incidents = {f"{incident.cluster}/{job}" for incident in incidents for job in incident.jobs}
        return self.placement.forget_ended(now_ns, of_incidents)

    def leave_behind(self, key: str, time_ns: int) -> None:
        """A job begins again: what happens to it from now on reopens no incident that was resolved before, and follows
        no end of it.
        """
        if self.ended_ns_by_job.get(key, time_ns) < time_ns:
            del self.ended_ns_by_job[key]
        for incident in self.resolved.values():
            incident.is_restarted |= key in incident.keys and incident.resolved_ns <= time_ns

    def clear(self, signal: Signal, classes: Collection[str]) -> list[IncidentState]:
        """A line reports that failures of these classes are over on its node, or at its pod: the incidents it ends."""
        keys = [f"{JOB}/{signal.cluster}/{signal.job}"] if signal.job else []
        if signal.node and where(signal) == signal.node:
            keys.append(f"{KERNEL}/{signal.cluster}/{signal.node}")
        for earlier in self.unattached.under(keys, signal.event_time_ns):
            if earlier.failure_class in classes:
                self.unattached.replace(cleared(earlier, signal), keys_of(earlier, self.jobs_of(earlier)))
        of_place = [self.open[found] for found in dict.fromkeys(chain.from_iterable(map(self._ids_under, keys)))]
        affected = [incident for incident in of_place if not incident.signals_by_class.keys().isdisjoint(classes)]
        return [incident for incident in affected if incident.clear(classes, signal)]

    def _ids_under(self, key: str) -> Iterable[str]:
        return self.by_key.get(key, ())

    def _homes(self, signal: Signal, jobs: set[str], relations: Relations) -> list[IncidentState]:
        found: dict[str, IncidentState] = {}
        compared: set[str] = set()
        for key in keys_sought(signal, jobs):
            holders = self.by_key.get(key)
            if not holders:
                continue
            kind = kind_of(key)
            for incident_id, newest_ns in holders.items():
                lag_ns = abs(signal.onset_ns - newest_ns)
                if incident_id in found or lag_ns > HOLDS_NS.get(kind, lag_ns):
                    continue
                incident = self.open[incident_id]
                if not is_of_a_maker(signal, key) and self._is_past(incident, signal, jobs):
                    continue
                if kind == MANY and not self._share_a_cause(signal, incident, holders, relations):
                    continue
                if _belongs(signal, key, kind, lag_ns) and not _is_outlived(incident, signal, jobs, relations):
                    found[incident_id] = incident
                elif incident_id not in compared:
                    compared.add(incident_id)
                    if _has_to_do(signal, incident, relations):
                        found[incident_id] = incident
        if jobs and signal.node and not is_node_wide(signal):
            found |= self._same_without_a_job(signal)
        return sorted(found.values(), key=_age) if len(found) > 1 else list(found.values())

    def _same_without_a_job(self, signal: Signal) -> dict[str, IncidentState]:
        """Incidents of no job that report the same here at this moment: kubelet's line on an image names none."""
        if not (holders := self.by_key.get(f"{JOBLESS}/{signal.cluster}/{signal.node}")):
            return {}
        near = (self.open[held] for held, newest in holders.items() if abs(signal.onset_ns - newest) <= SAME_MOMENT_NS)
        same = (incident for incident in near if not incident.jobs and _has_the_same(incident, signal))
        return {incident.incident_id: incident for incident in same}

    def _is_past(self, incident: IncidentState, signal: Signal, jobs: set[str]) -> bool:
        """Whether all jobs of the incident had ended, and other jobs fail now: not for the same failure of hardware."""
        if not jobs or not incident.jobs or not jobs.isdisjoint(incident.jobs):
            return False
        same = (other for other in incident.signals_by_class.get(signal.failure_class, ()) if other.node == signal.node)
        if is_node_wide(signal) and any(same):
            return False
        has_left, cluster, node = self.placement.has_left, incident.cluster, signal.node
        return all(has_left(cluster, job, signal.onset_ns, node) for job in incident.jobs)

    def _share_a_cause(
        self, signal: Signal, incident: IncidentState, holders: Collection[str], relations: Relations
    ) -> bool:
        """Whether many nodes report this at once, or these two depend on one thing; else they are two failures."""
        nodes = {other.node for held in holders for other in self.open[held].signals_by_class[signal.failure_class]}
        own_nodes = {other.node for other in incident.signals_by_class[signal.failure_class]}
        return len(nodes | {signal.node}) >= MANY_NODES or any(
            relations.share_equipment(signal.node, node) for node in own_nodes
        )

    def _remember_latent(self, incident: IncidentState) -> None:
        """What stays although the job trains on may end it later."""
        for signal in incident.signals():
            if vocabulary().is_latent(signal.failure_class):
                self.unattached.add(signal, keys_of(signal, incident.jobs_of(signal)))

    def _index(self, incident: IncidentState, signal: Signal, jobs: set[str]) -> None:
        incident_id = incident.incident_id
        for key in (*keys_of(signal, jobs), *jobless_keys(signal, jobs), *_moment_keys(incident, signal)):
            incident.keys.add(key)
            holders = self.by_key.setdefault(key, {})
            holders[incident_id] = max(signal.onset_ns, holders.get(incident_id, 0))

    def _take_unattached(self, incident: IncidentState, signal: Signal, jobs: set[str], relations: Relations) -> None:
        """Add earlier unattached signals that are related to the signal, unless the same has happened again there."""
        for earlier in self.unattached.under(keys_sought(signal, jobs), signal.onset_ns):
            if relations.hold(signal, [earlier]) and not _has_the_same(incident, earlier):
                affected = self.jobs_of(earlier)
                if incident.add(earlier, affected):
                    self.joined.append(Joined(incident.incident_id, earlier))
                    self._index(incident, earlier, affected)

    def _record_end(self, signal: Signal, jobs: set[str]) -> list[IncidentState]:
        """A job is complete, or cancelled just after: drop the pending errors of its programs."""
        if signal.failure_class not in _ENDS_A_JOB and signal.role != "finished":
            return []
        dropped = []
        for job in sorted(jobs):
            key = f"{JOB}/{signal.cluster}/{job}"
            self.ended_ns_by_job.pop(key, None)
            self.ended_ns_by_job[key] = signal.event_time_ns
            if len(self.ended_ns_by_job) > MAX_KEPT_ENDS:
                del self.ended_ns_by_job[next(iter(self.ended_ns_by_job))]
            of_job = (self.open[incident_id] for incident_id in self.by_key.get(key, ()))
            pending = [incident for incident in of_job if incident.pending_until_ns and not _is_of_a_kernel(incident)]
            if signal.role != "finished":
                began_ns = signal.event_time_ns - ENDED_BEFORE_NS
                pending = [incident for incident in pending if _may_follow_a_cancellation(incident, began_ns)]
            dropped += pending
        for incident in dropped:
            self.drop(incident)
        return dropped

    def _follows_an_end(self, signal: Signal, jobs: set[str]) -> bool:
        """Whether a job ended just before. A scheduler's reason may come after the plain cancellation."""
        if is_hard(signal):
            return False
        ends_ns = [self.ended_ns_by_job.get(f"{JOB}/{signal.cluster}/{job}", 0) for job in jobs]
        since_ns = REASON_WITHIN_NS if _is_a_scheduler_s_reason(signal) else -ENDED_BEFORE_NS
        return any(since_ns <= signal.onset_ns - ended_ns <= ENDED_FOR_NS for ended_ns in ends_ns)

    def _add_late(self, incident: IncidentState, signal: Signal, jobs: set[str]) -> list[IncidentState]:
        """Add evidence to a resolved incident, which stays resolved."""
        if not incident.add(signal, jobs):
            self.duplicate += 1
            return []
        self.joined.append(Joined(incident.incident_id, signal))
        incident.keys.update(_moment_keys(incident, signal))
        return [incident]

    def _resolved_home(self, signal: Signal, jobs: set[str], relations: Relations) -> IncidentState | None:
        """The recently resolved incident that the signal is late evidence for: it began before the incident's end."""
        if signal.onset_ns == signal.event_time_ns:
            return None
        sought = set(keys_sought(signal, jobs))
        for incident in reversed(list(self.resolved.values())):
            is_of_then = incident.first_onset_ns - SAME_MOMENT_NS <= signal.onset_ns <= incident.last_seen_ns
            if is_of_then and sought & incident.keys and _has_to_do(signal, incident, relations):
                return incident
        return None

    def _reopened(self, signal: Signal, jobs: set[str], relations: Relations) -> IncidentState | None:
        """Reopen a recently resolved incident that the signal belongs to; None if there is none."""
        sought = set(keys_sought(signal, jobs))
        for incident in reversed(list(self.resolved.values())):
            is_recent = signal.event_time_ns - incident.resolved_ns <= REOPENS_FOR_NS
            if (
                is_recent
                and not incident.is_restarted
                and sought & incident.keys
                and (_has_to_do(signal, incident, relations) or _follows_at_once(signal, jobs, incident))
            ):
                del self.resolved[incident.incident_id]
                self.open[incident.incident_id] = incident
                for key in incident.keys:
                    self.by_key.setdefault(key, {})[incident.incident_id] = incident.last_seen_ns
                incident.status, incident.resolved_ns, incident.resolved_by = "open", 0, Resolution.NONE
                incident.reopened += 1
                incident.record(signal.event_time_ns, f"reopened: {signal.failure_class}{place_of(signal)}")
                return incident
        return None

    def _open(self, signal: Signal) -> IncidentState:
        incident_id = stable_id("incident", signal.signal_id)
        incident = IncidentState(incident_id, signal.cluster, opened_ns=signal.event_time_ns)
        incident.record(signal.event_time_ns, f"opened: {signal.failure_class}{place_of(signal)}")
        if is_soft(signal):
            incident.pending_until_ns = signal.event_time_ns + (START_NS if delays_a_start(signal) else HOLD_NS)
        self.open[incident.incident_id] = incident
        return incident

    def _link(self, cluster: str, node: str, job: str, time_ns: int) -> list[IncidentState]:
        of_node = [self.open[incident_id] for incident_id in self.by_key.get(f"{KERNEL}/{cluster}/{node}", ())]
        linked = [
            incident
            for incident in of_node
            if job not in incident.jobs and time_ns <= incident.last_seen_ns + FIRST_LINE_WITHIN_NS
        ]
        if not linked:
            return []
        key = f"{JOB}/{cluster}/{job}"
        for incident in linked:
            incident.jobs.add(job)
            incident.jobs_by_node.setdefault(node, set()).add(job)
            incident.keys.add(key)
            self.by_key.setdefault(key, {})[incident.incident_id] = incident.last_seen_ns
        first, *others = sorted((self.open[incident_id] for incident_id in self.by_key[key]), key=_age)
        for other in others:
            self._merge(other, first, f"job {job} runs on {node}", time_ns)
        return [first, *others]

    def _merge(self, other: IncidentState, into: IncidentState, why: str, time_ns: int) -> None:
        into.absorb(other)
        into.record(time_ns, f"merged with incident {other.incident_id}: {why}")
        other.record(time_ns, f"merged into incident {into.incident_id}: {why}")
        other.status, other.merged_into = "resolved", into.incident_id
        for key in other.keys:
            holders = self.by_key[key]
            newest_ns = holders.get(other.incident_id, 0)
            holders[into.incident_id] = max(newest_ns, holders.get(into.incident_id, 0))
        self._forget(other)

    def _forget(self, incident: IncidentState) -> None:
        del self.open[incident.incident_id]
        for key in incident.keys:
            holders = self.by_key[key]
            holders.pop(incident.incident_id, None)
            if not holders:
                del self.by_key[key]


def _moment_keys(incident: IncidentState, signal: Signal) -> list[str]:
    """Those of a signal that the incident keeps."""
    is_kept = signal in incident.signals_by_class.get(signal.failure_class, ())
    return moment_keys(signal, bool(incident.jobs)) if is_kept else []


def _is_a_scheduler_s_reason(signal: Signal) -> bool:
    return signal.role == "root" and vocabulary().family(signal.failure_class) in _SCHEDULERS


def _is_of_a_kernel(incident: IncidentState) -> bool:
    return any(map(is_hard, incident.signals()))


def _may_follow_a_cancellation(incident: IncidentState, began_ns: int) -> bool:
    """Whether its errors may be of programs that end because their job is cancelled, or that a function caught."""
    may_be_of_the_end = incident.first_onset_ns >= began_ns or all(map(is_caught, incident.signals()))
    is_severe = any(vocabulary().family(name) in _NEVER_CANCELLED for name in incident.signals_by_class)
    return may_be_of_the_end and not is_severe


def _is_kept_apart(signal: Signal, incident: IncidentState) -> bool:
    """Whether a ticket would become a page by a program's error that its job may survive, or this one by a ticket's."""
    return _is_ticket(incident) if signal.job else bool(incident.pending_until_ns)


def _is_ticket(incident: IncidentState) -> bool:
    return not (incident.pending_until_ns or incident.hurts)


def _age(incident: IncidentState) -> tuple[int, str]:
    return (incident.first_onset_ns, incident.incident_id)


def _opens(signal: Signal) -> bool:
    return _is_error(signal) and signal.role not in _NEVER_OPENS


def _is_error(signal: Signal) -> bool:
    return signal.severity in ERRORS


def _is_outlived(incident: IncidentState, signal: Signal, jobs: set[str], relations: Relations) -> bool:
    """Whether the signal's jobs trained on after all failures of the incident: sharing a job is then not enough."""
    if not incident.pending_until_ns and signal.onset_ns <= incident.last_seen_ns + MAX_SKEW_NS:
        return False
    spans = relations.spans(signal.cluster, jobs).values()
    return any(span.until_ns > incident.last_seen_ns for span in spans) and all(
        is_survived(earlier, spans) for earlier in incident.signals() if _is_error(earlier)
    )


def _belongs(signal: Signal, key: str, kind: str, lag_ns: int) -> bool:
    """Whether sharing this key is enough."""
    if kind == JOB and not is_of_a_maker(signal, key):
        return _is_error(signal) or signal.role in _NEVER_OPENS
    if kind in (JOB, FOLDER):
        return False
    return kind not in (KERNEL, NODE, FILE) or (lag_ns <= SAME_MOMENT_NS and _is_error(signal))


def _has_to_do(signal: Signal, incident: IncidentState, relations: Relations) -> bool:
    """Whether a signal of the incident may be its cause or effect, or reports the same class at the same place."""
    if _has_the_same(incident, signal):
        return True
    return any(relations.hold(signal, of_class) for of_class in incident.signals_by_class.values())


def _has_the_same(incident: IncidentState, signal: Signal) -> bool:
    of_its_class = incident.signals_by_class.get(signal.failure_class, ())
    if signal.failure_class == UNNAMED:
        return any(signal.node == other.node and _is_one_message(signal, other) for other in of_its_class)
    return any(signal.node == other.node and signal.gpu == other.gpu for other in of_its_class)


def _is_one_message(signal: Signal, other: Signal) -> bool:
    """Whether two failures without a name are one: a rank repeats its message."""
    return signal.rank == other.rank and signal.fields.get(TEMPLATE_FIELD) == other.fields.get(TEMPLATE_FIELD)


def _follows_at_once(signal: Signal, jobs: set[str], incident: IncidentState) -> bool:
    """Whether it ends the incident's job so soon after it that the steps in between only show that clocks differ."""
    is_of_its_job = incident.resolved_by is Resolution.PROGRESS and not jobs.isdisjoint(incident.jobs)
    return is_of_its_job and signal.onset_ns <= incident.last_seen_ns + MAX_SKEW_NS
