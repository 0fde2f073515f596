"""Consumer groups: their members, their lag, and whether records expire before they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from epicenter.sinks.text.humanize import count
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.checks.finding import Finding, or_ok, problem, warning
from epicenter.stream.checks.topics import length
from epicenter.stream.kafka.clients import CLIENT_ID

WARNING_LAG: Final = 100_000
SHARE_OF_RETENTION: Final = 0.5
MORE_WORKERS: Final = "start more workers, up to the number of raw partitions, or raise retention.ms of the topic"


class Member(msgspec.Struct, frozen=True):
    """A client in a group."""

    client_id: str
    host: str


class Place(msgspec.Struct, frozen=True):
    """A group's progress in a partition: it reads `committed` next, the topic holds `first` to `end` (excluded).

    `oldest_ms` is the time of the record that it reads next; `retention_ms` is how long the topic keeps records, -1 for
    ever.
    """

    source: str
    first: int
    committed: int
    end: int
    oldest_ms: int | None = None
    retention_ms: int = -1

    @property
    def waiting(self) -> int:
        """Its lag: unread records that the topic still holds."""
        return max(0, self.end - max(self.committed, self.first))


class Group(msgspec.Struct, frozen=True):
    """A group as the brokers report it; `places` has the partitions with a committed offset."""

    name: str
    members: tuple[Member, ...]
    places: tuple[Place, ...]


def group_findings(group: Group, partitions: int, now_ms: int) -> Iterator[Finding]:
    """Its findings; `partitions` is the largest number of partitions of the topics that it reads."""
    waiting = sum(place.waiting for place in group.places)
    text = f"{count(len(group.members), 'member')}, lag {count(waiting, 'record')}"
    if not group.members and not group.places:
        text = "never used: no worker has been started"
    name = f"group {group.name}"
    yield from or_ok(name, text, _of_group(group, name, waiting, partitions, now_ms))


def _of_group(group: Group, name: str, waiting: int, partitions: int, now_ms: int) -> Iterator[Finding]:
    for member in sorted(
        {(client.client_id, client.host) for client in group.members if client.client_id != CLIENT_ID}
    ):
        text = f"{sanitize(member[0])} at {member[1]} is not an epicenter worker: what it reads is never processed"
        yield problem(name, text, "give that program another group")
    if not group.members and group.places:
        yield warning(name, f"no members, lag {count(waiting, 'record')}", "start `epicenter worker`")
    elif waiting >= WARNING_LAG:
        yield warning(name, f"lag {count(waiting, 'record')}", MORE_WORKERS)
    if len(group.members) > partitions > 0:
        text = f"{len(group.members)} workers share {partitions} partitions: some are idle"
        yield warning(name, text, "add partitions to the topic, or start fewer workers")
    for place in group.places:
        yield from _of_place(place, name, now_ms)


def _of_place(place: Place, name: str, now_ms: int) -> Iterator[Finding]:
    if 0 <= place.committed < place.first:
        lost = place.first - place.committed
        text = f"{place.source}: {count(lost, 'record')} were deleted before they were read"
        yield problem(name, text, MORE_WORKERS)
    elif place.waiting and place.oldest_ms is not None and place.retention_ms > 0:
        age_ms = max(0, now_ms - place.oldest_ms)
        if age_ms > SHARE_OF_RETENTION * place.retention_ms:
            text = (
                f"{place.source}: the next record is {length(age_ms)} old, and the topic keeps records for"
                f" {length(place.retention_ms)}: unread records are about to be lost"
            )
            yield problem(name, text, MORE_WORKERS)
