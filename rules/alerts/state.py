"""What the planner remembers: open incidents, and what each group of people was told and is still to be told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from epicenter.rules.alerts.guard import Acted
from epicenter.rules.alerts.mute import Mute, mute_of_text
from epicenter.rules.alerts.news import Age
from epicenter.rules.alerts.routing import RouteTarget
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Notification
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import duration_ns

INCIDENT: Final = "incident/"
GROUP: Final = "group/"
ACTED: Final = "acted"
"""The keys of records: one of each open incident, one of each group, and one of what machines were allowed to do."""

RETENTION_NS: Final = duration_ns("7d")
"""What is over is known for so long, so that logs that are read again tell nothing again."""

PROMPT: Final = frozenset(("resolved", "acknowledged"))


class OpenIncident(msgspec.Struct):
    """An incident that somebody may still have to be told of.

    `since_ns` is when it came, or came back; `told_ns` when the first were told of that, 0 before; `position` is where
    its newest revision stands.
    """

    incident: Incident
    labels: dict[str, tuple[str, ...]]
    since_ns: int
    position: Position
    told_ns: int = 0


class Member(msgspec.Struct):
    """An incident as one group knows it: what was told of it, and why the rest is not told now.

    `age` is that of the newest revision seen; `told` the digest of what was told; `told_status` open, resolved,
    refused, or empty for nothing; `mute` the newest decision not to tell; `over_ns` is when everybody knew its end.
    """

    age: Age
    told: str = ""
    told_status: str = ""
    mute: Mute | None = None
    acknowledged_ns: int = 0
    is_refused: bool = False
    over_ns: int = 0

    def is_forgotten(self, now_ns: int) -> bool:
        """Whether it is over for so long that its logs are not read again."""
        return 0 < self.over_ns < now_ns - RETENTION_NS


class Planned(msgspec.Struct):
    """A notification that waits for its target: `planned_ns` gives the order, `position` is its incident's.

    `told` has the kind of news of each incident that it is about.
    """

    notification: Notification
    planned_ns: int
    position: Position
    told: dict[str, str] = {}


class Group(msgspec.Struct):
    """Incidents that one target is told of together.

    `news_ns` is when untold news came first, 0 without any; `last` is the newest notification, `memo` what the target
    wants to remember.
    """

    key: str
    route_target: RouteTarget = msgspec.field(name="leg")
    members: dict[str, Member] = {}
    pending: list[Planned] = []
    last: Notification | None = None
    message_ref: dict[str, str] = msgspec.field(name="memo", default_factory=dict)
    told_count: int = 0
    news_ns: int = 0
    last_told_ns: int = 0

    @property
    def is_open(self) -> bool:
        """Whether people were told of something that goes on."""
        return any(member.told_status == "open" for member in self.members.values())

    def due_ns(self, kinds: Collection[str]) -> int:
        """When news of these kinds may be told. That all is over, or taken care of, is told at once."""
        if not self.told_count:
            return self.news_ns + self.route_target.group_wait_ns
        if PROMPT.issuperset(kinds):
            return self.news_ns
        return max(self.news_ns, self.last_told_ns + self.route_target.update_interval_ns)


def group_key(route_target: RouteTarget, labels: dict[str, tuple[str, ...]], cluster: str) -> str:
    """Which group an incident belongs to on its way; groups never span clusters."""
    values = [(name, labels.get(name, ())) for name in sorted(route_target.group_by)]
    return stable_id("group", route_target.target, route_target.after_ns, cluster, values)


_MUTED: Final = "muted"
"""A member's mute in words, in records of groups: versions before 0.2 know nothing else of it."""


def group_record(group: Group) -> bytes:
    """The group as it is kept."""
    document = msgspec.to_builtins(group)
    for name, member in group.members.items():
        document["members"][name][_MUTED] = member.mute.text if member.mute else ""
    return msgspec.json.encode(document)


def group_of(record: bytes) -> Group:
    """The group of a record, be it one of a version that kept mutes as words only.

    Raises:
        msgspec.DecodeError: it is no record of ours.
    """
    group = msgspec.json.decode(record, type=Group)
    words = msgspec.json.decode(record, type=_Words)
    for name, member in group.members.items():
        member.mute = member.mute or mute_of_text(words.members[name].muted)
    return group


class _MemberWords(msgspec.Struct):
    muted: str = ""


class _Words(msgspec.Struct):
    members: dict[str, _MemberWords] = {}


class AlertState(msgspec.Struct):
    """Everything that has to outlive the process; `changed` names the records to write."""

    incidents: dict[str, OpenIncident] = {}
    groups: dict[str, Group] = {}
    acted: list[Acted] = []
    changed: set[str] = set()

    @classmethod
    def restored(cls, records: Mapping[str, bytes]) -> tuple[AlertState, list[str]]:
        """From the records that were written; and the keys of those that are none of ours."""
        state, unreadable = cls(), []
        for key, value in records.items():
            try:
                state._restore(key, value)
            except msgspec.DecodeError:
                unreadable.append(key)
        return state, unreadable

    def _restore(self, key: str, value: bytes) -> None:
        if key.startswith(INCIDENT):
            self.incidents[key.removeprefix(INCIDENT)] = msgspec.json.decode(value, type=OpenIncident)
        elif key.startswith(GROUP):
            self.groups[key.removeprefix(GROUP)] = group_of(value)
        elif key == ACTED:
            self.acted = msgspec.json.decode(value, type=list[Acted])

    def take_changes(self) -> dict[str, bytes | None]:
        """The records that changed since the last call, in an order that may be cut off anywhere; None: it is gone.

        Incidents and actions come before the groups that speak of them, and go after them.
        """
        changed, self.changed = self.changed, set()
        records = {key: self._record(key) for key in changed}
        return dict(sorted(records.items(), key=lambda one: (one[1] is None, one[0].startswith(GROUP), one[0])))

    def _record(self, key: str) -> bytes | None:
        if key == ACTED:
            return msgspec.json.encode(self.acted)
        name = key.partition("/")[2]
        if key.startswith(GROUP):
            return group_record(self.groups[name]) if name in self.groups else None
        return msgspec.json.encode(self.incidents[name]) if name in self.incidents else None
