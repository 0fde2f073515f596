"""Whose failure it is: not that of a reporter that only waits for another."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.cause.suspects import Suspects
from epicenter.rules.correlate.state import IncidentState
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
        absent = set(context.nodes_by_job.get(signal.job, ())) - state.nodes_by_rule[signal.rule]
        signal = structs.replace(signal, node=absent.pop() if len(absent) == 1 else "", rank=None, gpu="")
    return suspects.culprit_of(signal) if suspects else signal


def reports_absence(state: IncidentState, signal: Signal) -> bool:
    """Whether several nodes report that another did not come, or does not answer."""
    return signal.rule in AWAITING_RULES and bool(signal.node and nodes_alike(state, signal))


def nodes_alike(state: IncidentState, root: Signal) -> list[str]:
    """The other nodes where the same rule matched, in order."""
    return sorted(state.nodes_by_rule.get(root.rule, set()) - {root.node})
