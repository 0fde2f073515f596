"""A group's reasons to notify -> one notification, with the action that a machine may take."""

from __future__ import annotations

from collections.abc import Mapping

from epicenter.rules.alerts.action import action_of
from epicenter.rules.alerts.guard import HOUR_NS, Acted, Guard, followed_by
from epicenter.rules.alerts.notify_reason import event_time, worst_first
from epicenter.rules.alerts.routing import Routing
from epicenter.rules.alerts.state import ACTED, AlertState, Group
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import MAX_BRIEFS, Action, Brief, Notification


class Composer:
    """Composes notifications from `state`, and counts there the actions that they allow."""

    def __init__(self, routing: Routing, state: AlertState):
        self._page_url = routing.spec.page_url.rstrip("/")
        self._guard = Guard(routing.spec)
        self._state = state

    def notification(self, group: Group, kind: str, reasons: Mapping[str, str], counted_ns: int) -> Notification:
        """The notification of this kind, with a reason by incident; it lists the group's other open incidents too."""
        open_ids = {name for name, member in group.members.items() if member.notified_status == "open"}
        shown = [self._state.incidents[name].incident for name in {*reasons, *open_ids} & self._state.incidents.keys()]
        first, *rest = sorted(
            shown, key=lambda incident: (reasons.get(incident.incident_id) != kind, *worst_first(incident))
        )
        return Notification(
            notification_id=stable_id("notification", group.key, group.notified_count, kind, first.incident_id),
            kind=kind,
            event_time=event_time(first) if kind == "resolved" else first.last_seen,
            incident=first,
            target=group.route_target.target,
            group=group.key,
            reason=group.route_target.route,
            also=tuple(map(Brief.of, rest[:MAX_BRIEFS])),
            more=len(rest[MAX_BRIEFS:]),
            labels=self._state.incidents[first.incident_id].labels,
            action=self._action(first, counted_ns),
            link=f"{self._page_url}/incidents/{first.incident_id}" if self._page_url else "",
        )

    def _action(self, incident: Incident, counted_ns: int) -> Action:
        """What a machine may do; an allowed action is counted."""
        recent = [acted for acted in self._state.acted if acted.time_ns > counted_ns - HOUR_NS]
        action = self._guard.judge(action_of(incident), recent, counted_ns, incident.incident_id)
        acted = Acted.of(action, incident.incident_id, counted_ns)
        if action.is_allowed and all(earlier[1:] != acted[1:] for earlier in recent):
            self._state.acted = followed_by(recent, acted)
            self._state.changed.add(ACTED)
        return action
