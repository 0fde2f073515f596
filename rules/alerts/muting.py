"""Why an incident is not told now, though it is news."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from epicenter.rules.alerts.inhibit import OpenIncidents
from epicenter.rules.alerts.mute import Mute
from epicenter.rules.alerts.routing import Routing
from epicenter.rules.alerts.silences import Silence, silenced_labels
from epicenter.rules.alerts.state import OpenIncident
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Outcome
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.times import iso_from_ns

NEVER_MUTED: Final = ("acknowledged", "resolved")
"""Who was told that something began is told that it is over, silence or not."""

_ENDED_BY_AN_ACKNOWLEDGEMENT: Final = ("escalated", "repeated")


class OperatorActions(NamedTuple):
    """What people said by now; of acknowledgements the newest of each incident."""

    silences: Sequence[Silence] = ()
    acknowledgements: Mapping[str, Acknowledgement] = {}

    def acknowledged(self, known: OpenIncident) -> Acknowledgement | None:
        """Who takes care of an incident since it came, or came back."""
        found = self.acknowledgements.get(known.incident.incident_id)
        return found if found and found.given_ns >= known.since_ns else None


class EvaluationContext(NamedTuple):
    """When it is asked, and what is known then. `is_last`: nothing more will come, so nothing waits for more."""

    now_ns: int
    actions: OperatorActions = OperatorActions()
    is_last: bool = False


class Muting:
    """The stages in their order: a silence within its grace, maintenance, silences, inhibition, acknowledgement."""

    def __init__(self, routing: Routing, is_silence: Callable[[Incident], bool]):
        self._routing = routing
        self._is_silence = is_silence

    def mute(
        self, known: OpenIncident, kind: str, open_incidents: OpenIncidents, context: EvaluationContext
    ) -> Mute | None:
        """The first stage that keeps it back; None when it may be told."""
        if kind in NEVER_MUTED:
            return None
        return (
            self._held(known, kind, context)
            or self._routing.maintenance(known.labels, context.now_ns)
            or self._silenced(known, context)
            or self._routing.inhibited_by(known.labels, open_incidents)
            or self._acknowledged(known, kind, context.actions)
        )

    def _held(self, known: OpenIncident, kind: str, context: EvaluationContext) -> Mute | None:
        until_ns = known.since_ns + self._routing.spec.grace_period
        is_within = context.now_ns < until_ns and not context.is_last
        if is_within and kind != "updated" and self._is_silence(known.incident):
            return Mute(Outcome.HELD, until=f"{iso_from_ns(until_ns)[:19]}Z")
        return None

    def _silenced(self, known: OpenIncident, context: EvaluationContext) -> Mute | None:
        silence = silenced_labels(context.actions.silences, known.labels, context.now_ns)
        return Mute(Outcome.SILENCED, by=silence.who, why=silence.reason) if silence else None

    def _acknowledged(self, known: OpenIncident, kind: str, actions: OperatorActions) -> Mute | None:
        if kind not in _ENDED_BY_AN_ACKNOWLEDGEMENT or not (taken := actions.acknowledged(known)):
            return None
        return Mute(Outcome.ACKNOWLEDGED, by=taken.who, why=taken.note)
