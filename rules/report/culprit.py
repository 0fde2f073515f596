"""Whose failure it is: not that of a reporter that only waits for another."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.cause.suspects import Suspects
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.signals import Signal
from epicenter.rules.report.title import nodes_alike

ABSENCE_CLASSES: Final = ("rendezvous-timeout", "socket-timeout")
"""Classes whose reporters, where several nodes report it, came themselves and wait for others that did not."""


def culprit_of(
    state: IncidentState, signal: Signal, suspects: Suspects | None, context: IncidentContext = NO_CONTEXT
) -> Signal:
    """The signal with the culprit's node and rank: the suspects', for one of their job that only waited.

    Where several nodes report that another did not come, it is the only node of the job that does not report it; if
    that is not known, there is no node.
    """
    others, _ = nodes_alike(state, signal)
    if signal.failure_class in ABSENCE_CLASSES and signal.role == "root" and others and signal.node:
        absent = set(context.nodes_by_job.get(signal.job, ())) - {signal.node, *others}
        signal = structs.replace(signal, node=absent.pop() if len(absent) == 1 else "", rank=None, gpu="")
    return suspects.culprit_of(signal) if suspects else signal
