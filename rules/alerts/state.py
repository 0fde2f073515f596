"""What the planner remembers: open incidents, what each group was notified of, and what is pending for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from epicenter.rules.alerts.counted_time import CountedMark, Instant
from epicenter.rules.alerts.guard import Acted
from epicenter.rules.alerts.mute import Mute, mute_of_text
from epicenter.rules.alerts.notify_reason import Age
from epicenter.rules.alerts.routing import RouteTarget
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Notification
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import duration_ns

INCIDENT: Final = "incident/"
GROUP: Final = "group/"
ACTED: Final = "acted"
CLOCK: Final = "clock"
"""The keys of records: one for each open incident, one for each group, one for allowed actions, one for the time."""

RETENTION_NS: Final = duration_ns("7d")
"""How long a resolved incident is remembered, so that reading its logs again does not notify again."""

PROMPT: Final = frozenset(("resolved", "acknowledged"))


class OpenIncident(msgspec.Struct):
    """An incident that may still need notifications.

    `since_ns` is the date at which it opened or reopened, `since_counted_ns` the counted time; `notified_ns` is the
    counted time of the first notification since then, 0 before it; `position` is that of its newest revision.
    """

    incident: Incident
    labels: dict[str, tuple[str, ...]]
    since_ns: int
    position: Position
    since_counted_ns: int = 0
    notified_ns: int = msgspec.field(name="told_ns", default=0)

    def __post_init__(self) -> None:
        """Records of older versions have the date alone."""
        self.since_counted_ns = self.since_counted_ns or self.since_ns

    @property
    def opened(self) -> Instant:
        """When it opened or reopened, in both times."""
        return Instant(self.since_ns, self.since_counted_ns)


class Member(msgspec.Struct):
    """An incident in one group: what the group was notified of, and why not of the rest.

    `age` is that of the newest revision seen; `notified_key` is the change key of the last notification;
    `notified_status` is open, resolved, refused, or empty before the first; `mute` is the newest decision not to
    notify; `acknowledged_ns` is the date of the last acknowledgement that the group was notified of; `ended_ns` is the
    counted time at which every group had been notified of its end.
    """

    age: Age
    notified_key: str = msgspec.field(name="told", default="")
    notified_status: str = msgspec.field(name="told_status", default="")
    mute: Mute | None = None
    acknowledged_ns: int = 0
    is_refused: bool = False
    ended_ns: int = msgspec.field(name="over_ns", default=0)

    def is_forgotten(self, counted_ns: int) -> bool:
        """Whether its retention has ended."""
        return 0 < self.ended_ns < counted_ns - RETENTION_NS


class Planned(msgspec.Struct):
    """A notification that waits for its target. `planned_ns`, in counted time, gives the order.

    `position` is its incident's; `reasons` has the notify reason of each of its incidents.
    """

    notification: Notification
    planned_ns: int
    position: Position
    reasons: dict[str, str] = msgspec.field(name="told", default_factory=dict)


class Group(msgspec.Struct):
    """Incidents that one target is notified of together.

    `changed_ns` is the first change not notified yet, 0 without any, and `last_notified_ns` the newest notification,
    `last`, both in counted time; `message_ref` is the target's own reference to it.
    """

    key: str
    route_target: RouteTarget = msgspec.field(name="leg")
    members: dict[str, Member] = {}
    pending: list[Planned] = []
    last: Notification | None = None
    message_ref: dict[str, str] = msgspec.field(name="memo", default_factory=dict)
    notified_count: int = msgspec.field(name="told_count", default=0)
    changed_ns: int = msgspec.field(name="news_ns", default=0)
    last_notified_ns: int = msgspec.field(name="last_told_ns", default=0)

    @property
    def is_open(self) -> bool:
        """Whether the group was notified of an incident that is still open."""
        return any(member.notified_status == "open" for member in self.members.values())

    def due_ns(self, reasons: Collection[str]) -> int:
        """The counted time at which a notification for these reasons may go out.

        An end or an acknowledgement goes out at once.
        """
        if not self.notified_count:
            return self.changed_ns + self.route_target.group_wait_ns
        if PROMPT.issuperset(reasons):
            return self.changed_ns
        return max(self.changed_ns, self.last_notified_ns + self.route_target.update_interval_ns)


def group_key(route_target: RouteTarget, labels: dict[str, tuple[str, ...]], cluster: str) -> str:
    """The key of the group that an incident belongs to at this target; groups never span clusters."""
    values = [(name, labels.get(name, ())) for name in sorted(route_target.group_by)]
    return stable_id("group", route_target.target, route_target.after_ns, cluster, values)


_MUTED: Final = "muted"
"""A member's mute as text, in records of groups: versions before 0.2 read nothing else."""


def group_record(group: Group) -> bytes:
    """The group as the journal stores it."""
    document = msgspec.to_builtins(group)
    for name, member in group.members.items():
        document["members"][name][_MUTED] = member.mute.text if member.mute else ""
    return msgspec.json.encode(document)


def group_of(record: bytes) -> Group:
    """The group of a record. Records of version 0.1 have mutes as text only; those are read too.

    Raises:
        msgspec.DecodeError: it is not a record of a group.
    """
    group = msgspec.json.decode(record, type=Group)
    texts = msgspec.json.decode(record, type=_MuteTexts)
    for name, member in group.members.items():
        member.mute = member.mute or mute_of_text(texts.members[name].muted)
    return group


class _MuteText(msgspec.Struct):
    muted: str = ""


class _MuteTexts(msgspec.Struct):
    members: dict[str, _MuteText] = {}


class AlertState(msgspec.Struct):
    """Everything that outlives the process; `changed` has the keys of the records to write, `clock` is when."""

    incidents: dict[str, OpenIncident] = {}
    groups: dict[str, Group] = {}
    acted: list[Acted] = []
    clock: CountedMark | None = None
    changed: set[str] = set()

    @classmethod
    def restored(cls, records: Mapping[str, bytes]) -> tuple[AlertState, list[str]]:
        """The state of these records, and the keys of the unreadable ones."""
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
        elif key == CLOCK:
            self.clock = msgspec.json.decode(value, type=CountedMark)

    def ended(self) -> CountedMark | None:
        """When the last process wrote; None if none did. Of older versions, the newest date that they wrote."""
        dates = [open_incident.since_ns for open_incident in self.incidents.values()]
        dates += [max(group.changed_ns, group.last_notified_ns) for group in self.groups.values()]
        return self.clock or (CountedMark.of_date(max(dates)) if dates else None)

    def take_changes(self) -> dict[str, bytes | None]:
        """The records that changed since the last call; None deletes one.

        A crash may stop the writes anywhere: incidents and actions are written before the groups that refer to them,
        and deleted after them.
        """
        changed, self.changed = self.changed, set()
        records = {key: self._record(key) for key in changed}
        return dict(sorted(records.items(), key=lambda item: (item[1] is None, item[0].startswith(GROUP), item[0])))

    def _record(self, key: str) -> bytes | None:
        if key == ACTED:
            return msgspec.json.encode(self.acted)
        if key == CLOCK:
            return msgspec.json.encode(self.clock)
        name = key.partition("/")[2]
        if key.startswith(GROUP):
            return group_record(self.groups[name]) if name in self.groups else None
        return msgspec.json.encode(self.incidents[name]) if name in self.incidents else None
