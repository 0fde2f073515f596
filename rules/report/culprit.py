"""Whose failure it is: not that of a reporter that only waits for another."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.cause.suspects import Suspects
from epicenter.rules.correlate.state import MAX_KEPT_PER_CLASS, IncidentState
from epicenter.rules.model.signals import Signal

AWAITING_RULES: Final = ("store.rendezvous_timeout", "store.socket_timeout")
"""Rules of the rendezvous store: where several nodes report it, they came themselves and wait for another."""


def culprit_of(
    state: IncidentState, signal: Signal, suspects: Suspects | None, context: IncidentContext = NO_CONTEXT
) -> Signal:
    """The signal with the culprit's node and rank: the suspects', for one of their job that only waited.

    Where several nodes report that another did not come, it is the only node of the job that does not report it; if
    that is not known, there is no node.
    """
    if reports_absence(state, signal):
        others, _ = nodes_alike(state, signal)
        absent = set(context.nodes_by_job.get(signal.job, ())) - {signal.node, *others}
        signal = structs.replace(signal, node=absent.pop() if len(absent) == 1 else "", rank=None, gpu="")
    return suspects.culprit_of(signal) if suspects else signal


def reports_absence(state: IncidentState, signal: Signal) -> bool:
    """Whether several nodes report that another did not come, or does not answer."""
    return signal.rule in AWAITING_RULES and bool(signal.node and nodes_alike(state, signal)[0])


def nodes_alike(state: IncidentState, root: Signal) -> tuple[list[str], bool]:
    """The other nodes where the same rule found the same, and whether every such signal was stored."""
    of_class = state.signals_by_class.get(root.failure_class, ())
    alike = {signal.node for signal in of_class if signal.rule == root.rule}
    return sorted(alike - {root.node, ""}), len(of_class) < MAX_KEPT_PER_CLASS
