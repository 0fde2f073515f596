"""Ranks in different collectives: no line reports it, but a comparison of their timeout reports shows it."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from epicenter.rules.cause.collectives import REPORTING_CLASSES
from epicenter.rules.cause.suspects import Suspects
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.event_time.ordering import onset_order
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.signals import Signal
from epicenter.rules.report.reason_text import suspects_text

MISMATCH_CLASS: Final = "collective-mismatch"
MISMATCH_RULE: Final = "mismatch.collectives"


def signals_with_mismatch(state: IncidentState, suspects: Suspects | None) -> list[Signal]:
    """The incident's signals; if its table of collectives shows a mismatch, that comes first as a signal.

    It began when the first rank of the job began to wait. It comes from no line, so it has no position.
    """
    signals = state.signals()
    if suspects is None or suspects.kind != "mismatch" or MISMATCH_CLASS in state.signals_by_class:
        return signals
    waiting = [signal for signal in signals if signal.failure_class in REPORTING_CLASSES and signal.job == suspects.job]
    return [_mismatch(min(waiting, key=onset_order), suspects), *signals] if waiting else signals


def _mismatch(first: Signal, suspects: Suspects) -> Signal:
    return structs.replace(
        first,
        signal_id=stable_id(MISMATCH_CLASS, first.signal_id),
        rule=MISMATCH_RULE,
        failure_class=MISMATCH_CLASS,
        role="root",
        node=suspects.node,
        rank=suspects.rank,
        gpu="",
        text=suspects_text(suspects),
        position=None,
        fields={},
        block=(),
    )
