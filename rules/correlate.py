"""Signal -> Incident: which signals belong together. One real failure is one incident, however many ranks shout."""

from __future__ import annotations

from typing import Final

import msgspec

from rules.model import NS_PER_S, SEVERITIES, Progress, Signal, stable_id

KEPT_PER_CLASS: Final = 8
"""The earliest signals of each class that an incident keeps word for word; it counts the others."""

PLACED_FOR_NS: Final = 3600 * NS_PER_S
"""A job that was not heard of on a node for this long has left it, once another job is heard of there."""

_NEVER_OPENS = ("teardown", "advice", "confirmation", "finished")


class IncidentState(msgspec.Struct):
    """What is known of one incident so far."""

    incident_id: str
    cluster: str
    status: str = "open"
    revision: int = 0
    merged_into: str = ""
    jobs: set[str] = set()
    nodes: set[str] = set()
    kernel_nodes: set[str] = set()
    ranks: set[str] = set()
    seen: set[str] = set()
    signal_count: int = 0
    first_onset_ns: int = 0
    last_seen_ns: int = 0
    steps_since: dict[str, int] = {}
    kept_by_class: dict[str, list[Signal]] = {}
    jobs_by_node: dict[str, set[str]] = {}
    progress: dict[str, Progress] = {}

    def add(self, signal: Signal, jobs: set[str]) -> bool:
        """Take a signal in; false when it is a copy of one already here."""
        if signal.signal_id in self.seen:
            return False
        self.seen.add(signal.signal_id)
        self.signal_count += 1
        self.jobs |= jobs
        if signal.node:
            self.nodes.add(signal.node)
            self.jobs_by_node.setdefault(signal.node, set()).update(jobs)
        if signal.source == "kernel":
            self.kernel_nodes.add(signal.node)
        if signal.rank is not None:
            self.ranks.add(f"{signal.job}/{signal.rank}")
        self.first_onset_ns = min(self.first_onset_ns or signal.onset_ns, signal.onset_ns)
        self.last_seen_ns = max(self.last_seen_ns, signal.event_time_ns)
        self.steps_since.clear()
        kept = [*self.kept_by_class.get(signal.failure_class, ()), signal]
        self.kept_by_class[signal.failure_class] = sorted(kept, key=onset_order)[:KEPT_PER_CLASS]
        return True

    def absorb(self, other: IncidentState) -> None:
        """Take over all that another incident holds."""
        self.jobs |= other.jobs
        self.nodes |= other.nodes
        self.kernel_nodes |= other.kernel_nodes
        self.ranks |= other.ranks
        self.signal_count += len(other.seen - self.seen)
        self.seen |= other.seen
        self.first_onset_ns = min(self.first_onset_ns, other.first_onset_ns)
        self.last_seen_ns = max(self.last_seen_ns, other.last_seen_ns)
        for node, jobs in other.jobs_by_node.items():
            self.jobs_by_node.setdefault(node, set()).update(jobs)
        for failure_class, signals in other.kept_by_class.items():
            kept = {signal.signal_id: signal for signal in (*self.kept_by_class.get(failure_class, ()), *signals)}
            self.kept_by_class[failure_class] = sorted(kept.values(), key=onset_order)[:KEPT_PER_CLASS]

    def jobs_of(self, signal: Signal) -> set[str]:
        """The jobs that one of these signals touches: its own, else those on its node when the signals came."""
        return {signal.job} if signal.job else self.jobs_by_node.get(signal.node, set())

    def signals(self) -> list[Signal]:
        """The kept signals, earliest onset first."""
        return sorted((signal for kept in self.kept_by_class.values() for signal in kept), key=onset_order)


def onset_order(signal: Signal) -> tuple[int, int, str, str]:
    """Earliest onset first; the rest makes the order the same everywhere."""
    return (signal.onset_ns, signal.event_time_ns, signal.node, signal.signal_id)


class Correlator(msgspec.Struct):
    """Open incidents and the placement of jobs on nodes, as learnt from the lines themselves."""

    open: dict[str, IncidentState] = {}
    heard_by_node: dict[str, dict[str, int]] = {}

    def place(self, cluster: str, node: str, job: str, time_ns: int) -> list[IncidentState]:
        """Learn that a job runs on a node at that time; jobs that ran there long before are gone.

        Learnt late, it links incidents of the node's kernel to the job: those that changed by it.
        """
        if not (node and job):
            return []
        heard_ns = self.heard_by_node.setdefault(f"{cluster}/{node}", {})
        is_news = job not in heard_ns
        heard_ns[job] = max(time_ns, heard_ns.get(job, 0))
        for gone in [one for one, last_ns in heard_ns.items() if last_ns < time_ns - PLACED_FOR_NS]:
            del heard_ns[gone]
        return self._link(cluster, node, job, time_ns) if is_news else []

    def jobs_of(self, signal: Signal) -> set[str]:
        """The jobs that a signal touches: its own, else those placed on its node."""
        if signal.job:
            return {signal.job}
        return set(self.heard_by_node.get(f"{signal.cluster}/{signal.node}", ()))

    def take(self, signal: Signal) -> list[IncidentState]:
        """Put a signal where it belongs; the incidents that changed by it."""
        jobs = self.jobs_of(signal)
        found = sorted((one for one in self.open.values() if _belongs(signal, jobs, one)), key=_age)
        if not found:
            if not _opens(signal):
                return []
            found = [self._open(signal)]
        first, *others = found
        changed = first.add(signal, jobs)
        for other in others:
            self._merge(other, first)
        return [first, *others] if changed or others else []

    def _link(self, cluster: str, node: str, job: str, time_ns: int) -> list[IncidentState]:
        of_cluster = [incident for incident in self.open.values() if incident.cluster == cluster]
        later = [one for one in of_cluster if node in one.kernel_nodes and job not in one.jobs]
        linked = [incident for incident in later if time_ns <= incident.last_seen_ns]
        for incident in linked:
            incident.jobs.add(job)
            incident.jobs_by_node.setdefault(node, set()).add(job)
        if not linked:
            return []
        first, *others = sorted((one for one in of_cluster if job in one.jobs), key=_age)
        for other in others:
            self._merge(other, first)
        return [first, *others]

    def _open(self, signal: Signal) -> IncidentState:
        incident = IncidentState(stable_id("incident", signal.signal_id), signal.cluster)
        self.open[incident.incident_id] = incident
        return incident

    def _merge(self, other: IncidentState, into: IncidentState) -> None:
        into.absorb(other)
        other.status, other.merged_into = "resolved", into.incident_id
        del self.open[other.incident_id]


def _age(incident: IncidentState) -> tuple[int, str]:
    return (incident.first_onset_ns, incident.incident_id)


def _opens(signal: Signal) -> bool:
    return SEVERITIES.index(signal.severity) >= SEVERITIES.index("error") and signal.role not in _NEVER_OPENS


def _belongs(signal: Signal, jobs: set[str], incident: IncidentState) -> bool:
    if signal.cluster != incident.cluster:
        return False
    if jobs & incident.jobs:
        return True
    if not signal.node or signal.node not in incident.nodes:
        return False
    both_without_job = not jobs and not incident.jobs
    return both_without_job or signal.source == "kernel" or signal.node in incident.kernel_nodes
