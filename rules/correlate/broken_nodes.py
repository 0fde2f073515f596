"""Which node broke as a job stopped, where no line places the node in the job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, Protocol

from epicenter.rules.cause.processes import is_of_training
from epicenter.rules.cause.survival import breaks_its_node
from epicenter.rules.cause.suspects import WAITING_CLASSES
from epicenter.rules.correlate.harm import REBOOT_CLASS
from epicenter.rules.correlate.keys import JOB, NODE_WIDE, is_node_wide, is_of_lost_pod
from epicenter.rules.correlate.pending import is_hard
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S

SAME_STOP_NS: Final = 60 * NS_PER_S
"""A node without known jobs that breaks this close to the stop of a job that lacks a node is that node."""

MAX_AT_ONCE: Final = 64
"""Where the incidents of one moment are more, that two of them come together shows nothing."""

STOP: Final = "stop"
BROKEN: Final = "broken"
"""Kinds of keys (`keys.py`) by the minute of a signal: a job stops, a node of no job breaks. No signal is sought by
them.
"""

_STOPS: Final = frozenset((*WAITING_CLASSES, "connection-reset", "nccl-error", "nccl-net-ib-error"))
_MAY_STOP: Final = _STOPS | NODE_WIDE


MayLackANode = Callable[[str, str], bool]
"""Whether a job of a cluster may run on more nodes than those that logged."""


class Incidents(Protocol):
    """The open incidents."""

    def under(self, key: str) -> Iterable[IncidentState]:
        """Those with this key."""

    def first_opened(self, incidents: Collection[IncidentState]) -> IncidentState:
        """The one of these that was opened, or reopened, first."""


def moment_keys(signal: Signal, has_jobs: bool) -> list[str]:
    """The keys under which its incident is found if a job stops by this signal, or a node of no job breaks."""
    kinds = [STOP] if signal.job and is_a_stop(signal) else []
    if not has_jobs and breaks_a_node(signal):
        kinds.append(BROKEN)
    minutes = {_minute(time_ns) for time_ns in _times_ns(signal)}
    return [f"{kind}/{signal.cluster}/{minute}" for kind in kinds for minute in minutes]


def broken_node_without_job(incidents: Incidents, stop: Signal) -> Signal | None:
    """What broke the only node that broke when a job stopped, and that no line places in a job; None if there is no
    such node, or if a node of the job broke then.
    """
    if any(_has_broken_node(incident, stop) for incident in incidents.under(f"{JOB}/{stop.cluster}/{stop.job}")):
        return None
    found: list[IncidentState] = []
    nodes: set[str] = set()
    for incident in _near(incidents, BROKEN, stop):
        if broken := {signal.node for signal in _broken_without_job(incident, stop)}:
            found.append(incident)
            nodes |= broken
        if len(nodes) > 1:
            return None
    return next(_broken_without_job(incidents.first_opened(found), stop)) if found else None


def jobs_that_stopped(incidents: Incidents, broken: Signal, may_lack_a_node: MayLackANode) -> Iterator[str]:
    """The jobs that may lack a node, and that had stopped, or lost a peer, when this node broke, without those of which
    another node broke.
    """
    return (
        stop.job
        for incident in _near(incidents, STOP, broken)
        if any(may_lack_a_node(broken.cluster, job) for job in incident.jobs)
        for stop in incident.kept_signals(_MAY_STOP)
        if stop.job and is_a_stop(stop) and stop.cluster == broken.cluster and may_lack_a_node(stop.cluster, stop.job)
        if _breaks_a_node_at(broken, stop) and not _has_broken_node(incident, stop)
    )


def is_a_stop(signal: Signal) -> bool:
    """Whether a job stopped, or one of its ranks lost a peer, for a reason that its reporter does not know."""
    return signal.failure_class in _STOPS or is_of_lost_pod(signal)


def breaks_a_node(signal: Signal) -> bool:
    """Whether it takes its node, a device of it, or a program of training away from whatever runs there."""
    breaks = breaks_its_node(signal) if is_hard(signal) else is_node_wide(signal)
    return bool(signal.node) and (breaks or is_of_training(signal)) and not signal.is_foreign


def _near(incidents: Incidents, kind: str, signal: Signal) -> Iterable[IncidentState]:
    """The incidents with a signal of this kind that may be of the same moment, each once; none if they are too many."""
    minutes = {_minute(time_ns) + next_to for time_ns in _times_ns(signal) for next_to in (-1, 0, 1)}
    found: dict[str, IncidentState] = {}
    for minute in sorted(minutes):
        for incident in incidents.under(f"{kind}/{signal.cluster}/{minute}"):
            found[incident.incident_id] = incident
            if len(found) > MAX_AT_ONCE:
                return ()
    return found.values()


def _times_ns(signal: Signal) -> tuple[int, int]:
    return signal.onset_ns, signal.event_time_ns


def _minute(time_ns: int) -> int:
    return time_ns // SAME_STOP_NS


def _broken_without_job(incident: IncidentState, stop: Signal) -> Iterator[Signal]:
    of_no_job = incident.signals() if not incident.jobs else ()
    return (signal for signal in of_no_job if signal.cluster == stop.cluster and _breaks_a_node_at(signal, stop))


def _has_broken_node(incident: IncidentState, stop: Signal) -> bool:
    return any(_breaks_a_node_at(signal, stop) for signal in incident.kept_signals())


def _breaks_a_node_at(signal: Signal, stop: Signal) -> bool:
    """Whether it breaks a node at the moment of the stop. A scheduler notices late, a kernel at once.

    A report of a boot does not tell when the node went down, but that was minutes before.
    """
    if signal.failure_class == REBOOT_CLASS and signal.onset_ns == signal.event_time_ns:
        return False
    apart_ns = abs(signal.onset_ns - stop.onset_ns)
    if not is_hard(signal):
        apart_ns = min(apart_ns, abs(signal.event_time_ns - stop.event_time_ns))
    return apart_ns <= SAME_STOP_NS and breaks_a_node(signal)
