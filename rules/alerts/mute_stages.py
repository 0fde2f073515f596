"""Why no target is notified of an incident now, although there is a reason to notify."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from epicenter.rules.alerts.counted_time import Instant
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
"""A target that was notified of the opening is notified of these too, silence or not."""

_ENDED_BY_AN_ACKNOWLEDGEMENT: Final = ("escalated", "repeated")


class OperatorActions(NamedTuple):
    """Silences and acknowledgements in force; of acknowledgements, the newest of each incident."""

    silences: Sequence[Silence] = ()
    acknowledgements: Mapping[str, Acknowledgement] = {}

    def acknowledged(self, open_incident: OpenIncident) -> Acknowledgement | None:
        """The acknowledgement of an incident since it opened or reopened."""
        found = self.acknowledgements.get(open_incident.incident.incident_id)
        return found if found and found.given_ns >= open_incident.since_ns else None


class EvaluationContext(NamedTuple):
    """The time, and the operator actions in force. `is_last`: no more lines will come, so no grace period applies."""

    now: Instant
    actions: OperatorActions = OperatorActions()
    is_last: bool = False


class Muting:
    """The stages in order: grace period, maintenance, silences, inhibition, acknowledgement."""

    def __init__(self, routing: Routing, is_liveness: Callable[[Incident], bool]):
        self._routing = routing
        self._is_liveness = is_liveness

    def mute(
        self, open_incident: OpenIncident, reason: str, open_incidents: OpenIncidents, context: EvaluationContext
    ) -> Mute | None:
        """The first stage that mutes it; None when none does."""
        if reason in NEVER_MUTED:
            return None
        return (
            self._pending(open_incident, reason, context)
            or self._routing.maintenance(open_incident.labels, context.now.wall_ns)
            or self._silenced(open_incident, context)
            or self._routing.inhibited_by(open_incident.labels, open_incidents)
            or self._acknowledged(open_incident, reason, context.actions)
        )

    def _pending(self, open_incident: OpenIncident, reason: str, context: EvaluationContext) -> Mute | None:
        grace_ns = self._routing.spec.grace_period
        is_within = context.now.counted_ns < open_incident.since_counted_ns + grace_ns and not context.is_last
        if is_within and reason != "updated" and self._is_liveness(open_incident.incident):
            return Mute(Outcome.PENDING, until=f"{iso_from_ns(open_incident.since_ns + grace_ns)[:19]}Z")
        return None

    def _silenced(self, open_incident: OpenIncident, context: EvaluationContext) -> Mute | None:
        silence = silenced_labels(context.actions.silences, open_incident.labels, context.now.wall_ns)
        return Mute(Outcome.SILENCED, by=silence.who, why=silence.reason) if silence else None

    def _acknowledged(self, open_incident: OpenIncident, reason: str, actions: OperatorActions) -> Mute | None:
        if reason not in _ENDED_BY_AN_ACKNOWLEDGEMENT or not (found := actions.acknowledged(open_incident)):
            return None
        return Mute(Outcome.ACKNOWLEDGED, by=found.who, why=found.note)
