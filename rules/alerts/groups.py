"""Which groups an incident is in. It stays in a group that was notified of it, even if routes change."""

from __future__ import annotations

from collections.abc import Collection

from epicenter.rules.alerts.counted_time import Instant
from epicenter.rules.alerts.decisions import Decisions
from epicenter.rules.alerts.inhibit import OpenIncidents
from epicenter.rules.alerts.mute import Mute
from epicenter.rules.alerts.notify_reason import REFUSED, Age, notify_reason
from epicenter.rules.alerts.routing import RouteTarget, Routing
from epicenter.rules.alerts.state import GROUP, INCIDENT, AlertState, Group, Member, OpenIncident, group_key
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Outcome
from epicenter.rules.model.records import Position


class Groups:
    """Keeps the members of `state.groups`, and the open incidents that may inhibit others.

    `evaluate_at_ns` is the counted time at which to evaluate a group again if nothing happens to it; a group without
    an entry is due now.
    """

    def __init__(self, routing: Routing, state: AlertState, decisions: Decisions):
        self._routing = routing
        self._state = state
        self._decisions = decisions
        self._keys_by_incident: dict[str, set[str]] = {}
        self.open_incidents = OpenIncidents(routing.spec.inhibit)
        self.evaluate_at_ns: dict[str, int] = {}
        for group in state.groups.values():
            for incident_id, member in group.members.items():
                self._keys_by_incident.setdefault(incident_id, set()).add(group.key)
                if member.notified_status == "open" and incident_id not in state.incidents:
                    member.notified_status = ""  # its document was unreadable: its next revision notifies anew
        for open_incident in list(state.incidents.values()):
            self.enter(open_incident.incident, open_incident.position, open_incident.opened)

    def enter(self, incident: Incident, position: Position, now: Instant) -> list[Group]:
        """The groups that the incident is in after this revision; none when a newer revision is known."""
        if self._is_outdated(incident):
            return []
        before = self._state.incidents.get(incident.incident_id)
        is_new = before is None or before.incident.reopened < incident.reopened
        is_other_record = before is None or before.position != position
        labels = dict(self._routing.labels_of(incident))
        self._store(OpenIncident(incident, labels, now.wall_ns, position, now.counted_ns), None if is_new else before)
        routed, notified = self._routing.route(labels), self._notified(incident)
        wanted = {
            self._staying(route_target, group_key(route_target, labels, incident.cluster), notified): route_target
            for route_target in routed.route_targets
        }
        if is_new and not wanted:
            self._decisions.add(incident, Mute(Outcome.UNROUTED, why="; ".join(routed.reasons)), now.wall_ns)
        for key in self._keys(incident) - wanted.keys() - notified:
            self.leave(self._state.groups[key], incident.incident_id)
        return [
            self._join(key, wanted.get(key), incident, now, is_other_record) for key in sorted(wanted.keys() | notified)
        ]

    def leave(self, group: Group, incident_id: str) -> None:
        """The incident is no longer in the group."""
        del group.members[incident_id]
        self.evaluate_at_ns.pop(group.key, None)
        self._state.changed.add(GROUP + group.key)
        self._keys_by_incident[incident_id].discard(group.key)
        if not self._keys_by_incident[incident_id]:
            del self._keys_by_incident[incident_id]

    def forget(self, group: Group) -> None:
        """The group is gone, with all its members."""
        for incident_id in list(group.members):
            self.leave(group, incident_id)
        del self._state.groups[group.key]
        self.evaluate_at_ns.pop(group.key, None)
        self._state.changed.add(GROUP + group.key)

    def drop_resolved(self, counted_ns: int) -> None:
        """Drop the document of each resolved incident whose end has reached every group notified of it."""
        for incident in [found.incident for found in self._state.incidents.values()]:
            keys = self._keys(incident)
            members = [self._state.groups[key].members[incident.incident_id] for key in keys]
            if incident.status != "open" and all(member.notified_status != "open" for member in members):
                for member in members:
                    member.ended_ns = counted_ns
                self._state.changed |= {GROUP + key for key in keys}
                del self._state.incidents[incident.incident_id]
                self._state.changed.add(INCIDENT + incident.incident_id)

    def _store(self, open_incident: OpenIncident, before: OpenIncident | None) -> None:
        """Store the newest revision, and keep when the incident opened."""
        incident_id = open_incident.incident.incident_id
        if before:
            open_incident.since_ns, open_incident.since_counted_ns = before.opened
            open_incident.notified_ns = before.notified_ns
        self._state.incidents[incident_id] = open_incident
        self._state.changed.add(INCIDENT + incident_id)
        if open_incident.incident.status == "open":
            self.open_incidents.put(incident_id, open_incident.labels)
        else:
            self.open_incidents.drop(incident_id)

    def _keys(self, incident: Incident) -> set[str]:
        return self._keys_by_incident.get(incident.incident_id, set())

    def _is_outdated(self, incident: Incident) -> bool:
        """Whether a newer revision was seen, even if its document has been dropped."""
        known = self._state.incidents.get(incident.incident_id)
        ages = [self._state.groups[key].members[incident.incident_id].age for key in self._keys(incident)]
        return any(Age.of(incident) < age for age in [*ages, *([Age.of(known.incident)] if known else [])])

    def _notified(self, incident: Incident) -> set[str]:
        """The groups notified of it. They are notified of its later changes too, even if it is routed elsewhere."""
        groups = self._state.groups
        return {key for key in self._keys(incident) if groups[key].members[incident.incident_id].notified_status}

    def _staying(self, route_target: RouteTarget, key: str, notified: Collection[str]) -> str:
        """The group in which this target was notified before; `key` if there is none."""
        route_targets = {name: self._state.groups[name].route_target for name in sorted(notified)}
        same = (
            name
            for name, other in route_targets.items()
            if (other.target, other.after_ns) == (route_target.target, route_target.after_ns)
        )
        return key if key in notified else next(same, key)

    def _join(
        self, key: str, route_target: RouteTarget | None, incident: Incident, now: Instant, is_other_record: bool
    ) -> Group:
        group = self._state.groups.setdefault(key, Group(key, route_target or RouteTarget("", "")))
        group.route_target = route_target or group.route_target
        member = group.members.setdefault(incident.incident_id, Member(Age.of(incident)))
        _offer_again(group, member, Age.of(incident), is_other_record)
        member.age, member.ended_ns = Age.of(incident), 0
        if incident.status == "resolved" and not member.notified_status and _is_pending(member):
            self._decisions.mute(group, incident, Mute(Outcome.REFUTED), now.wall_ns)
        if not group.changed_ns and notify_reason(incident, member.notified_key, member.notified_status):
            group.changed_ns = now.counted_ns
        self._state.changed.add(GROUP + group.key)
        self._keys_by_incident.setdefault(incident.incident_id, set()).add(group.key)
        return group


def _offer_again(group: Group, member: Member, age: Age, is_other_record: bool) -> None:
    """Retry a refused notification when its revision arrives in another record or the incident reopened."""
    if member.is_refused and age == member.age and is_other_record:
        member.notified_key, member.notified_status = "", "" if member.notified_status == REFUSED else "open"
        group.last_notified_ns = 0
    elif member.notified_status == REFUSED and age.reopened > member.age.reopened:
        member.notified_key = member.notified_status = ""
    if is_other_record:
        member.is_refused = False


def _is_pending(member: Member) -> bool:
    return member.mute is not None and member.mute.outcome is Outcome.PENDING
