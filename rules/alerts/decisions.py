"""Decisions not to notify, as deliveries; a decision that stays the same is recorded once."""

from __future__ import annotations

from epicenter.rules.alerts.mute import Mute
from epicenter.rules.alerts.state import GROUP, AlertState, Group
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Delivery


class Decisions:
    """Collects them until they are taken; each member of a group in `state` has its newest decision."""

    def __init__(self, state: AlertState):
        self._state = state
        self._collected: list[Delivery] = []

    def mute(self, group: Group, incident: Incident, mute: Mute, now_ns: int) -> None:
        """The group is not notified of the incident. The same mute again adds nothing."""
        member = group.members[incident.incident_id]
        if member.mute != mute:
            member.mute = mute
            self._state.changed.add(GROUP + group.key)
            self.add(incident, mute, now_ns, group.route_target.target)

    def add(self, incident: Incident, mute: Mute, now_ns: int, target: str = "") -> None:
        """This target is not notified of the incident; no target is, if none is given."""
        self._collected.append(
            Delivery(
                notification_id=stable_id("muted", target, incident.incident_id, mute.outcome.value, mute.reason_0_1),
                target=target,
                outcome=mute.outcome,
                incident_id=incident.incident_id,
                revision=incident.revision,
                kind="reopened" if incident.reopened else "opened",
                event_time=incident.last_seen,
                reason=mute.reason,
                decided_ns=now_ns,
            )
        )

    def take(self) -> list[Delivery]:
        """All since the last call, in order."""
        collected, self._collected = self._collected, []
        return collected
