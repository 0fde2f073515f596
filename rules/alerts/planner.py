"""Incidents and operator actions -> notifications, each change once for each target.

Stages: route, group, mute, deduplicate. Each decision not to notify is a `Delivery` with its reason. Time is an
argument: what people date holds by the wall clock, waits end by counted time. `AlertState` outlives the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from epicenter.rules.alerts.composing import Composer
from epicenter.rules.alerts.decisions import Decisions
from epicenter.rules.alerts.groups import Groups
from epicenter.rules.alerts.mute import Mute
from epicenter.rules.alerts.mute_stages import EvaluationContext, Muting, OperatorActions
from epicenter.rules.alerts.notify_reason import BEGINNINGS, KINDS, REFUSED, change_key, notify_reason
from epicenter.rules.alerts.routing import RouteTarget, Routing
from epicenter.rules.alerts.state import GROUP, INCIDENT, RETENTION_NS, AlertState, Group, OpenIncident, Planned
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Delivery
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.records import Position

MAX_PENDING: Final = 20
"""At most this many notifications wait in a group; further ones join the last. A record has to fit into Kafka."""

FAR_NS: Final = 1 << 62


class Planner:
    """Decides who is notified; sends nothing. Store `state.take_changes()` before you send.

    `is_liveness`: whether an incident's root cause is a verdict on missing logs, which a sign of life may refute.
    """

    def __init__(self, routing: Routing, is_liveness: Callable[[Incident], bool], state: AlertState):
        self._muting = Muting(routing, is_liveness)
        self._mutes: dict[tuple[str, str], Mute | None] = {}
        self._acknowledgements: Mapping[str, Acknowledgement] = {}
        self._composer = Composer(routing, state)
        self._decisions = Decisions(state)
        self._groups = Groups(routing, state, self._decisions)
        self.state = state

    def observe(self, incident: Incident, position: Position, context: EvaluationContext) -> None:
        """Plan what this revision of an incident changes. A revision older than the newest seen changes nothing."""
        self._mutes.clear()
        for group in self._groups.enter(incident, position, context.now):
            self._evaluate(group, context)

    def advance(self, context: EvaluationContext) -> list[Delivery]:
        """Plan what is due by now, and return the decisions not to notify since the last call."""
        self._mutes.clear()
        if context.is_last or context.actions.acknowledgements != self._acknowledgements:
            self._groups.evaluate_at_ns.clear()
            self._acknowledgements = context.actions.acknowledgements
        for group in list(self.state.groups.values()):
            if context.now.counted_ns >= self._groups.evaluate_at_ns.get(group.key, 0):
                self._evaluate(group, context)
        self._groups.drop_resolved(context.now.counted_ns)
        return self._decisions.take()

    def record_sent(self, group: Group, message_ref: Mapping[str, str]) -> None:
        """The target accepted the group's first pending notification."""
        del group.pending[0]
        group.message_ref = dict(message_ref)
        self.state.changed.add(GROUP + group.key)

    def record_refused(self, group: Group) -> None:
        """The target rejects it permanently. The same revision in another record is offered once more."""
        refused = group.pending.pop(0)
        notified_later = {incident_id for planned in group.pending for incident_id in planned.reasons}
        for incident_id in refused.reasons.keys() & group.members.keys():
            member = group.members[incident_id]
            member.is_refused = True
            is_first_notice = refused.reasons[incident_id] in BEGINNINGS and incident_id not in notified_later
            if is_first_notice and member.notified_status == "open":
                member.notified_status = REFUSED
        self.state.changed.add(GROUP + group.key)

    def forget(self, group: Group) -> None:
        """Drop the group: its target is no longer configured."""
        self._groups.forget(group)

    def _evaluate(self, group: Group, context: EvaluationContext) -> None:
        """Plan what is due, and set when to evaluate the group next if nothing happens to it."""
        reasons = dict(self._reasons(group, context.actions))
        repeat_ns = group.last_notified_ns + group.route_target.repeat_interval_ns
        due_ns = group.due_ns(reasons.values()) if reasons else repeat_ns
        if not reasons and not group.is_open:
            self._rest(group, context.now.counted_ns)
        elif context.now.counted_ns < due_ns and not (context.is_last and reasons):
            self._groups.evaluate_at_ns[group.key] = due_ns
        else:
            self._notify_unless_muted(group, reasons or self._repeats(group), context)

    def _reasons(self, group: Group, actions: OperatorActions) -> Iterator[tuple[str, str]]:
        """Why to notify, for each incident of the group with a reason."""
        for incident_id, member in group.members.items():
            if open_incident := self.state.incidents.get(incident_id):
                reason = notify_reason(open_incident.incident, member.notified_key, member.notified_status)
                acknowledged = actions.acknowledged(open_incident)
                if reason in ("opened", "reopened") and group.route_target.after_ns:
                    yield incident_id, "escalated"
                elif reason:
                    yield incident_id, reason
                elif (
                    acknowledged
                    and member.notified_status == "open"
                    and acknowledged.given_ns != member.acknowledged_ns
                ):
                    yield incident_id, "acknowledged"

    def _repeats(self, group: Group) -> dict[str, str]:
        """The open incidents, when it is time to repeat them."""
        still_open = [name for name, member in group.members.items() if member.notified_status == "open"]
        return dict.fromkeys([] if group.pending else still_open, "repeated")

    def _rest(self, group: Group, counted_ns: int) -> None:
        """Nothing is open: forget the group when its retention ends."""
        if group.changed_ns:
            group.changed_ns = 0
            self.state.changed.add(GROUP + group.key)
        forget_ns = group.last_notified_ns + RETENTION_NS
        if counted_ns > forget_ns and not group.pending:
            self.forget(group)
        else:
            self._groups.evaluate_at_ns[group.key] = max(forget_ns, counted_ns) + 1

    def _notify_unless_muted(self, group: Group, reasons: Mapping[str, str], context: EvaluationContext) -> None:
        unmuted, next_ns = {}, [group.last_notified_ns + group.route_target.repeat_interval_ns]
        for incident_id, reason in reasons.items():
            open_incident = self.state.incidents[incident_id]
            escalates_ns = _escalates_ns(open_incident, group.route_target)
            if reason == "escalated" and escalates_ns > context.now.counted_ns:
                next_ns.append(escalates_ns if open_incident.notified_ns else 0)
            elif mute := self._mute(open_incident, reason, context):
                next_ns.append(0)
                self._decisions.mute(group, open_incident.incident, mute, context.now.wall_ns)
            else:
                unmuted[incident_id] = reason
        if group.changed_ns and not reasons.keys() - unmuted.keys():
            group.changed_ns = 0
            self.state.changed.add(GROUP + group.key)
        self._groups.evaluate_at_ns[group.key] = min(next_ns)
        if unmuted:
            self._notify(group, unmuted, context)
            self._evaluate(group, context)  # such as an acknowledgement of what was notified just now

    def _mute(self, open_incident: OpenIncident, reason: str, context: EvaluationContext) -> Mute | None:
        """The mute of an incident for a reason: found once for all groups."""
        key = (open_incident.incident.incident_id, reason)
        if key not in self._mutes:
            self._mutes[key] = self._muting.mute(open_incident, reason, self._groups.open_incidents, context)
        return self._mutes[key]

    def _notify(self, group: Group, reasons: Mapping[str, str], context: EvaluationContext) -> None:
        """Append one notification to the group's `pending`."""
        counted_ns = context.now.counted_ns
        for incident_id in [name for name, member in group.members.items() if member.is_forgotten(counted_ns)]:
            self._groups.leave(group, incident_id)
        for incident_id, reason in reasons.items():
            self._note_notified(group, incident_id, reason, context)
        if len(group.pending) >= MAX_PENDING:
            reasons = {**group.pending.pop().reasons, **reasons}
        kind = min(reasons.values(), key=KINDS.index)
        if kind == "resolved" and group.is_open:
            kind = "updated"
        notification = self._composer.notification(group, kind, reasons, counted_ns)
        position = self.state.incidents[notification.incident.incident_id].position
        group.pending.append(Planned(notification, counted_ns, position, dict(reasons)))
        group.last, group.last_notified_ns = notification, counted_ns
        group.notified_count += 1
        self.state.changed.add(GROUP + group.key)

    def _note_notified(self, group: Group, incident_id: str, reason: str, context: EvaluationContext) -> None:
        """Record what the group is notified of; an incident's first notification starts its escalations."""
        member, open_incident = group.members[incident_id], self.state.incidents[incident_id]
        member.notified_key = change_key(open_incident.incident)
        member.notified_status, member.mute = open_incident.incident.status, None
        if reason == "acknowledged":
            member.acknowledged_ns = context.actions.acknowledgements[incident_id].given_ns
        is_first = reason in ("opened", "reopened") and not group.route_target.after_ns
        if is_first and not open_incident.notified_ns:
            open_incident.notified_ns = context.now.counted_ns
            self.state.changed.add(INCIDENT + incident_id)


def _escalates_ns(open_incident: OpenIncident, route_target: RouteTarget) -> int:
    """The counted time at which the incident escalates unless the targets notified first acknowledge it."""
    return (open_incident.notified_ns or FAR_NS) + route_target.after_ns
