"""Which node broke as a job stopped, where no line places the node in the job."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from epicenter.rules.cause.processes import is_of_training
from epicenter.rules.cause.survival import breaks_its_node
from epicenter.rules.cause.suspects import WAITING_CLASSES
from epicenter.rules.correlate.harm import REBOOT_CLASS
from epicenter.rules.correlate.keys import is_node_wide, is_of_lost_pod
from epicenter.rules.correlate.pending import is_hard
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S

SAME_STOP_NS: Final = 60 * NS_PER_S
"""A node without known jobs that breaks this close to the stop of a job that lacks a node is that node."""

_STOPS: Final = frozenset((*WAITING_CLASSES, "connection-reset", "nccl-error", "nccl-net-ib-error"))


def broken_node_without_job(incidents: Collection[IncidentState], stop: Signal) -> Signal | None:
    """What broke the only node that broke when a job stopped, and that no line places in a job; None if there is no
    such node, or if a node of the job broke then.
    """
    if any(stop.job in incident.jobs and _has_broken_node(incident, stop) for incident in incidents):
        return None
    of_no_job = (signal for incident in incidents if not incident.jobs for signal in incident.signals())
    broken = [signal for signal in of_no_job if signal.cluster == stop.cluster and _breaks_a_node_at(signal, stop)]
    return broken[0] if len({signal.node for signal in broken}) == 1 else None


def jobs_that_stopped(incidents: Collection[IncidentState], broken: Signal) -> set[str]:
    """The jobs that had stopped, or lost a peer, when this node broke, without those of which another node broke."""
    return {
        stop.job
        for incident in incidents
        for stop in incident.signals()
        if stop.job and is_a_stop(stop) and stop.cluster == broken.cluster
        if _breaks_a_node_at(broken, stop) and not _has_broken_node(incident, stop)
    }


def is_a_stop(signal: Signal) -> bool:
    """Whether a job stopped, or one of its ranks lost a peer, for a reason that its reporter does not know."""
    return signal.failure_class in _STOPS or is_of_lost_pod(signal)


def breaks_a_node(signal: Signal) -> bool:
    """Whether it takes its node, a device of it, or a program of training away from whatever runs there."""
    breaks = breaks_its_node(signal) if is_hard(signal) else is_node_wide(signal)
    return bool(signal.node) and (breaks or is_of_training(signal)) and not signal.is_foreign


def _has_broken_node(incident: IncidentState, stop: Signal) -> bool:
    return any(_breaks_a_node_at(signal, stop) for signal in incident.signals())


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
