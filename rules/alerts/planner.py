"""Incidents, and what people said of them -> notifications, each piece of news once for each target.

Stages: route, group, mute, deduplicate. Every decision not to tell is given as a `Delivery` with its reason. The clock
is an argument; what has to outlive the process is in `AlertState`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from epicenter.rules.alerts.composing import Composer
from epicenter.rules.alerts.inhibit import OpenIncidents
from epicenter.rules.alerts.mute import Mute
from epicenter.rules.alerts.muting import EvaluationContext, Muting, OperatorActions
from epicenter.rules.alerts.news import BEGINNINGS, KINDS, REFUSED, Age, digest, news_of
from epicenter.rules.alerts.routing import RouteTarget, Routing
from epicenter.rules.alerts.state import (
    GROUP,
    INCIDENT,
    RETENTION_NS,
    AlertState,
    Group,
    Member,
    OpenIncident,
    Planned,
    group_key,
)
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Delivery, Outcome
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.records import Position

MAX_PENDING: Final = 20
"""Of what waits longer for a target, people would read the newest only; and a group's record has to fit into Kafka."""

FAR_NS: Final = 1 << 62


class Planner:
    """Decides, and sends nothing. Whoever calls keeps `state.take_changes()` before anything is sent.

    `is_silence` says whether the root cause of an incident is a silence, which the next sign of life may refute.
    """

    def __init__(self, routing: Routing, is_silence: Callable[[Incident], bool], state: AlertState):
        self._routing = routing
        self._muting = Muting(routing, is_silence)
        self._decisions: list[Delivery] = []
        self._groups_of: dict[str, set[str]] = {}
        self._open = OpenIncidents(routing.spec.inhibit)
        self._asleep_until_ns: dict[str, int] = {}
        self._acknowledgements: Mapping[str, Acknowledgement] = {}
        self._mutes: dict[tuple[str, str], Mute | None] = {}
        self._composer = Composer(routing, state)
        self.state = state
        for group in state.groups.values():
            for incident_id, member in group.members.items():
                self._groups_of.setdefault(incident_id, set()).add(group.key)
                if member.told_status == "open" and incident_id not in state.incidents:
                    member.told_status = ""  # its document was unreadable: its next revision is told anew
        for known in list(state.incidents.values()):
            self._enter(known.incident, known.position, known.since_ns)

    def take(self, incident: Incident, position: Position, context: EvaluationContext) -> None:
        """A revision of an incident, and where it stands. One that is older than what is known changes nothing."""
        self._mutes.clear()
        for group in self._enter(incident, position, context.now_ns):
            self._look_at(group, context)

    def advance(self, context: EvaluationContext) -> list[Delivery]:
        """What is due by now joins the groups' `pending`. The decisions since the last call not to tell, each once."""
        self._mutes.clear()
        if context.is_last or context.actions.acknowledgements != self._acknowledgements:
            self._asleep_until_ns.clear()
            self._acknowledgements = context.actions.acknowledgements
        for group in list(self.state.groups.values()):
            if context.now_ns >= self._asleep_until_ns.get(group.key, 0):
                self._look_at(group, context)
        for known in [one for one in self.state.incidents.values() if one.incident.status != "open"]:
            self._let_go(known.incident, context.now_ns)
        decisions, self._decisions = self._decisions, []
        return decisions

    def note_sent(self, group: Group, message_ref: Mapping[str, str]) -> None:
        """The target has the first of the group's pending notifications."""
        del group.pending[0]
        group.message_ref = dict(message_ref)
        self.state.changed.add(GROUP + group.key)

    def note_refused(self, group: Group) -> None:
        """The target will never take it. The same revision of its incident, in another record, asks once more."""
        refused = group.pending.pop(0)
        told_later = {incident_id for planned in group.pending for incident_id in planned.told}
        for incident_id in refused.told.keys() & group.members.keys():
            member = group.members[incident_id]
            member.is_refused = True
            is_unheard = refused.told[incident_id] in BEGINNINGS and incident_id not in told_later
            if is_unheard and member.told_status == "open":
                member.told_status = REFUSED
        self.state.changed.add(GROUP + group.key)

    def forget(self, group: Group) -> None:
        """Nobody is told anything in this group any more."""
        for incident_id in list(group.members):
            self._leave(group, incident_id)
        del self.state.groups[group.key]
        self._asleep_until_ns.pop(group.key, None)
        self.state.changed.add(GROUP + group.key)

    def _enter(self, incident: Incident, position: Position, now_ns: int) -> list[Group]:
        if self._is_old(incident):
            return []
        known = self.state.incidents.get(incident.incident_id)
        labels = dict(self._routing.labels_of(incident))
        is_new = known is None or known.incident.reopened < incident.reopened
        since_ns, told_ns = (known.since_ns, known.told_ns) if known and not is_new else (now_ns, 0)
        self.state.incidents[incident.incident_id] = OpenIncident(incident, labels, since_ns, position, told_ns)
        if incident.status == "open":
            self._open.put(incident.incident_id, labels)
        else:
            self._open.drop(incident.incident_id)
        self.state.changed.add(INCIDENT + incident.incident_id)
        routed, told = self._routing.route(labels), self._groups_told_of(incident)
        wanted = {
            self._staying(route_target, group_key(route_target, labels, incident.cluster), told): route_target
            for route_target in routed.route_targets
        }
        if is_new and not wanted:
            self._decide(incident, Mute(Outcome.UNROUTED, why="; ".join(routed.reasons)), now_ns)
        for key in self._groups_of.get(incident.incident_id, set()) - wanted.keys() - told:
            self._leave(self.state.groups[key], incident.incident_id)
        is_again = known is None or known.position != position
        return [self._join(key, wanted.get(key), incident, now_ns, is_again) for key in sorted(wanted.keys() | told)]

    def _staying(self, route_target: RouteTarget, key: str, told: Collection[str]) -> str:
        """The group in which its target heard of it already, be it that it belongs into another one by now."""
        route_targets = {name: self.state.groups[name].route_target for name in sorted(told)}
        same = (
            name
            for name, one in route_targets.items()
            if (one.target, one.after_ns) == (route_target.target, route_target.after_ns)
        )
        return key if key in told else next(same, key)

    def _is_old(self, incident: Incident) -> bool:
        """A newer revision was here, be it that all is over since, and its document gone."""
        known = self.state.incidents.get(incident.incident_id)
        keys = self._groups_of.get(incident.incident_id, ())
        ages = [self.state.groups[key].members[incident.incident_id].age for key in keys]
        return any(Age.of(incident) < age for age in [*ages, *([Age.of(known.incident)] if known else [])])

    def _groups_told_of(self, incident: Incident) -> set[str]:
        """Where people know of it, be it that it looked different then: they are told how it goes on."""
        keys = self._groups_of.get(incident.incident_id, set())
        return {key for key in keys if self.state.groups[key].members[incident.incident_id].told_status}

    def _join(
        self, key: str, route_target: RouteTarget | None, incident: Incident, now_ns: int, is_again: bool
    ) -> Group:
        group, age = self.state.groups.get(key) or Group(key, route_target or RouteTarget("", "")), Age.of(incident)
        group.route_target = route_target or group.route_target
        member = group.members.get(incident.incident_id) or Member(age)
        if member.is_refused and age == member.age and is_again:
            member.told, member.told_status = "", "" if member.told_status == REFUSED else "open"
            group.last_told_ns = 0
        elif member.told_status == REFUSED and age.reopened > member.age.reopened:
            member.told = member.told_status = ""
        if is_again:
            member.is_refused = False
        member.age, member.over_ns = age, 0
        if incident.status == "resolved" and not member.told_status and _is_held(member):
            self._note_mute(group, incident, member, Mute(Outcome.REFUTED), now_ns)
        if not group.news_ns and news_of(incident, member.told, member.told_status):
            group.news_ns = now_ns
        group.members[incident.incident_id] = member
        self.state.groups[group.key] = group
        self.state.changed.add(GROUP + group.key)
        self._groups_of.setdefault(incident.incident_id, set()).add(group.key)
        return group

    def _look_at(self, group: Group, context: EvaluationContext) -> None:
        """Tell what may be told, and say when to look again if nothing happens to the group meanwhile."""
        news = dict(self._news(group, context.actions))
        due_ns = group.due_ns(news.values()) if news else group.last_told_ns + group.route_target.repeat_interval_ns
        if not news and not group.is_open:
            self._rest(group, context.now_ns)
        elif context.now_ns < due_ns and not (context.is_last and news):
            self._asleep_until_ns[group.key] = due_ns
        else:
            self._tell_what_may_be(group, news or self._repeats(group), context)

    def _tell_what_may_be(self, group: Group, news: Mapping[str, str], context: EvaluationContext) -> None:
        told, look_ns = {}, [group.last_told_ns + group.route_target.repeat_interval_ns]
        for incident_id, kind in news.items():
            known = self.state.incidents[incident_id]
            if kind == "escalated" and (answer_ns := _to_be_answered_by(known, group.route_target)) > context.now_ns:
                look_ns.append(answer_ns if known.told_ns else 0)
            elif mute := self._mute(known, kind, context):
                look_ns.append(0)
                self._note_mute(group, known.incident, group.members[incident_id], mute, context.now_ns)
            else:
                told[incident_id] = kind
        if group.news_ns and not news.keys() - told.keys():
            group.news_ns = 0
            self.state.changed.add(GROUP + group.key)
        self._asleep_until_ns[group.key] = min(look_ns)
        if told:
            self._tell(group, told, context)
            self._look_at(group, context)  # such as an acknowledgement of what was told just now

    def _mute(self, known: OpenIncident, kind: str, context: EvaluationContext) -> Mute | None:
        """The same for all groups at one moment."""
        key = (known.incident.incident_id, kind)
        if key not in self._mutes:
            self._mutes[key] = self._muting.mute(known, kind, self._open, context)
        return self._mutes[key]

    def _rest(self, group: Group, now_ns: int) -> None:
        """Nothing goes on: it is forgotten some day."""
        if group.news_ns:
            group.news_ns = 0
            self.state.changed.add(GROUP + group.key)
        forget_ns = group.last_told_ns + RETENTION_NS
        if now_ns > forget_ns and not group.pending:
            self.forget(group)
        else:
            self._asleep_until_ns[group.key] = max(forget_ns, now_ns) + 1

    def _news(self, group: Group, actions: OperatorActions) -> Iterator[tuple[str, str]]:
        for incident_id, member in group.members.items():
            if known := self.state.incidents.get(incident_id):
                kind = news_of(known.incident, member.told, member.told_status)
                taken = actions.acknowledged(known)
                if kind in ("opened", "reopened") and group.route_target.after_ns:
                    yield incident_id, "escalated"
                elif kind:
                    yield incident_id, kind
                elif taken and member.told_status == "open" and taken.given_ns > member.acknowledged_ns:
                    yield incident_id, "acknowledged"

    def _repeats(self, group: Group) -> dict[str, str]:
        """What goes on, when it is time to say so again."""
        going_on = [name for name, member in group.members.items() if member.told_status == "open"]
        return dict.fromkeys([] if group.pending else going_on, "repeated")

    def _tell(self, group: Group, told: Mapping[str, str], context: EvaluationContext) -> None:
        now_ns = context.now_ns
        for incident_id in [name for name, member in group.members.items() if member.is_forgotten(now_ns)]:
            self._leave(group, incident_id)
        for incident_id, kind in told.items():
            member, incident = group.members[incident_id], self.state.incidents[incident_id].incident
            member.told, member.told_status, member.mute = digest(incident), incident.status, None
            if kind == "acknowledged":
                member.acknowledged_ns = context.actions.acknowledgements[incident_id].given_ns
            if not group.route_target.after_ns and kind in ("opened", "reopened"):
                self._start_escalations(incident_id, now_ns)
        if len(group.pending) >= MAX_PENDING:
            told = {**group.pending.pop().told, **told}
        kind = min(told.values(), key=KINDS.index)
        if kind == "resolved" and group.is_open:
            kind = "updated"
        notification = self._composer.notification(group, kind, told, now_ns)
        position = self.state.incidents[notification.incident.incident_id].position
        group.pending.append(Planned(notification, now_ns, position, dict(told)))
        group.last, group.last_told_ns, group.told_count = notification, now_ns, group.told_count + 1
        self.state.changed.add(GROUP + group.key)

    def _start_escalations(self, incident_id: str, now_ns: int) -> None:
        known = self.state.incidents[incident_id]
        if not known.told_ns:
            known.told_ns = now_ns
            self.state.changed.add(INCIDENT + incident_id)

    def _note_mute(self, group: Group, incident: Incident, member: Member, mute: Mute, now_ns: int) -> None:
        if member.mute != mute:
            member.mute = mute
            self.state.changed.add(GROUP + group.key)
            self._decide(incident, mute, now_ns, group)

    def _decide(self, incident: Incident, mute: Mute, now_ns: int, group: Group | None = None) -> None:
        target = group.route_target.target if group else ""
        self._decisions.append(
            Delivery(
                notification_id=stable_id("muted", target, incident.incident_id, mute.outcome.value, mute.reason),
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

    def _leave(self, group: Group, incident_id: str) -> None:
        del group.members[incident_id]
        self._asleep_until_ns.pop(group.key, None)
        self.state.changed.add(GROUP + group.key)
        self._groups_of[incident_id].discard(group.key)
        if not self._groups_of[incident_id]:
            del self._groups_of[incident_id]

    def _let_go(self, incident: Incident, now_ns: int) -> None:
        """Drop a document when everybody who was told that it began knows that it is over."""
        keys = self._groups_of.get(incident.incident_id, ())
        members = [self.state.groups[key].members[incident.incident_id] for key in keys]
        if all(member.told_status != "open" for member in members):
            for member in members:
                member.over_ns = now_ns
            self.state.changed |= {GROUP + key for key in keys}
            del self.state.incidents[incident.incident_id]
            self.state.changed.add(INCIDENT + incident.incident_id)


def _is_held(member: Member) -> bool:
    return member.mute is not None and member.mute.outcome is Outcome.HELD


def _to_be_answered_by(known: OpenIncident, route_target: RouteTarget) -> int:
    """Until when the first who are told of it have time to acknowledge it."""
    return (known.told_ns or FAR_NS) + route_target.after_ns
