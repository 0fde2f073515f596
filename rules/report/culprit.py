"""Whose failure it is: not that of a reporter that only waits for another."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.cause.suspects import WAITING_CLASSES, Suspects
from epicenter.rules.cause.witnesses import accused, names_another_process
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.outlier import Outlier
from epicenter.rules.model.signals import Signal

RENDEZVOUS_RULE: Final = "store.rendezvous_timeout"
AWAITING_RULES: Final = (RENDEZVOUS_RULE, "store.socket_timeout", "jax.barrier_timeout")
"""Rules of stores and barriers: where several nodes report it, they came themselves and wait for another."""


FORCED_KILL_RULE: Final = "elastic.forced_kill"

TIMEOUT_CLASSES: Final = ("nccl-timeout", "heartbeat-timeout")
"""Classes that every node reports whose ranks wait for another."""

OPEN_CLASSES: Final = ("straggler", "hang", "rendezvous-timeout")
"""Classes of a job as a whole, which name no node themselves."""


def culprit_of(
    state: IncidentState, signal: Signal, suspects: Suspects | None, context: IncidentContext = NO_CONTEXT
) -> Signal:
    """The signal with the culprit's node and rank: the suspects', for one of their job that only waited; else the node
    of the peer that went away, for a lost connection to it: whoever lost it is not the culprit.

    Where nodes report that another did not come, it is the only one of the job that did not; if that is not known,
    there is no node. If a job stands, is slow or never starts for no other known reason, it is the job's only outlier.
    """
    if reports_absence(state, signal, context):
        absent = _absent_nodes(state, signal, context)
        signal = structs.replace(signal, node=absent[0] if len(absent) == 1 else "", rank=None, gpu="")
    if suspects:
        signal = suspects.culprit_of(signal)
    if is_victim := names_another_process(signal, context):
        signal = _of_lost_peer(state, signal, context)
    if signal.failure_class in WAITING_CLASSES and not (suspects and suspects.node):
        signal = _of_awaited_node(state, signal, context)
    if not signal.node and signal.rank is not None:
        signal = structs.replace(signal, node=context.node_of_rank.get((signal.job, signal.rank), ""))
    if not (signal.node or is_victim or signal.failure_class in (*WAITING_CLASSES, *OPEN_CLASSES)):
        signal = structs.replace(signal, node=_only_node_named(state, signal))
    outlier = outlier_of(signal, context)
    return structs.replace(signal, node=outlier.node) if outlier else signal


def _of_lost_peer(state: IncidentState, signal: Signal, context: IncidentContext) -> Signal:
    """The signal at the node that most lost; at none if that is not known, and no other node names the reporter."""
    lost = accused(state.accusers_by_peer, context, state.node_by_address)
    named = signal if lost is None else lost.culprit_of(signal)
    is_named = named is not signal or signal.node in (lost and lost.node, *state.accusers_by_peer)
    return named if is_named else structs.replace(signal, node="", rank=None, gpu="")


def _of_awaited_node(state: IncidentState, signal: Signal, context: IncidentContext) -> Signal:
    """The signal at the only node of the job that reports no timeout, else where a process had to be killed; at none if
    several nodes report one and no other is known.

    A node whose logs stopped before is only suspected if all others report one.
    """
    reporters = set().union(*(state.nodes_by_rule.get(of.rule, ()) for of in _timeouts(state)))
    nodes = set(context.nodes_by_job.get(signal.job, ()))
    mute = {*context.mute_nodes_by_job.get(signal.job, ()), *context.unheard_nodes_by_job.get(signal.job, ())}
    silent = nodes - reporters - mute
    are_most = 2 * len(reporters & nodes) >= len(nodes - mute) > 1
    suspected = silent or mute & nodes
    silent_node = suspected.pop() if are_most and len(suspected) == 1 else ""
    if node := silent_node or unstoppable_node(state, signal):
        return structs.replace(signal, node=node, gpu="")
    return structs.replace(signal, node="", rank=None, gpu="") if len(reporters & nodes) > 1 else signal


def unstoppable_node(state: IncidentState, signal: Signal) -> str:
    """The only node where the launcher had to kill a process of a job that waited; empty without one.

    A rank that waits in a collective ends when it is asked to. One that is stuck, as in the driver, does not.
    """
    nodes = {node for node in state.nodes_by_rule.get(FORCED_KILL_RULE, ()) if signal.job in state.jobs_by_node[node]}
    return nodes.pop() if signal.failure_class in WAITING_CLASSES and len(nodes) == 1 else ""


def _only_node_named(state: IncidentState, signal: Signal) -> str:
    """The only node that lines about the same failure of its job name, else that any line names; empty if none."""
    alike = state.signals_by_class.get(signal.failure_class, ())
    nodes = {other.node for other in alike if other.node and other.job in ("", signal.job)} or state.nodes
    return next(iter(nodes)) if len(nodes) == 1 else ""


def _timeouts(state: IncidentState) -> list[Signal]:
    return [signal for name in TIMEOUT_CLASSES for signal in state.signals_by_class.get(name, ())]


def outlier_of(signal: Signal, context: IncidentContext) -> Outlier | None:
    """What the only node shows that differs from the others of a job without a known culprit; None without one."""
    outliers = context.outliers_by_job.get(signal.job, ())
    is_open = signal.failure_class in OPEN_CLASSES and not signal.node and signal.rank is None
    return outliers[0] if is_open and len({outlier.node for outlier in outliers}) == 1 else None


def reports_absence(state: IncidentState, signal: Signal, context: IncidentContext = NO_CONTEXT) -> bool:
    """Whether nodes report that another did not come, or does not answer: several, or while one never logged.

    The only node of a job that logs and gives up on the rendezvous waited for others too.
    """
    if signal.rule not in AWAITING_RULES or not signal.node:
        return False
    heard = len(context.nodes_by_job.get(signal.job, ()))
    nodes = context.node_count_by_job.get(signal.job, 0)
    is_one_missing = nodes > heard > 0
    is_alone = signal.rule == RENDEZVOUS_RULE and heard == 1 != nodes
    return is_one_missing or is_alone or bool(nodes_alike(state, signal) or unheard_nodes(state, signal, context))


def _absent_nodes(state: IncidentState, signal: Signal, context: IncidentContext) -> list[str]:
    """The nodes of the job that never logged before its first step; without any, those that do not report the same."""
    reporters = state.nodes_by_rule[signal.rule]
    return unheard_nodes(state, signal, context) or sorted(set(context.nodes_by_job.get(signal.job, ())) - reporters)


def unheard_nodes(state: IncidentState, signal: Signal, context: IncidentContext) -> list[str]:
    """The nodes that the job's list of hosts names and that had not logged, before its first step."""
    at_onset = state.at_onset.get(signal.job)
    has_trained = at_onset is not None and at_onset.last_step is not None
    return (
        []
        if has_trained
        else sorted(set(context.unheard_nodes_by_job.get(signal.job, ())) - state.nodes_by_rule.get(signal.rule, set()))
    )


def nodes_alike(state: IncidentState, root: Signal) -> list[str]:
    """The other nodes where the same rule matched, in order."""
    return sorted(state.nodes_by_rule.get(root.rule, set()) - {root.node})
