"""Consumer groups: who is in them, how much waits for them, and whether it will still be there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from epicenter.sinks.text.humanize import count
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.checks.finding import Finding, or_all_is_well, problem, warning
from epicenter.stream.checks.topics import length
from epicenter.stream.kafka.clients import CLIENT_ID

LAG_IS_LARGE: Final = 100_000
SHARE_OF_RETENTION: Final = 0.5
MORE_WORKERS: Final = "start more workers, up to the number of raw partitions, or raise retention.ms of the topic"


class Member(msgspec.Struct, frozen=True):
    """A client in a group."""

    client_id: str
    host: str


class Place(msgspec.Struct, frozen=True):
    """How far a group is in a partition: it reads `committed` next, the topic holds `first` to `end` (excluded).

    `oldest_ms` is the time of the record that it reads next; `kept_ms` how long the topic keeps records, -1 for ever.
    """

    source: str
    first: int
    committed: int
    end: int
    oldest_ms: int | None = None
    retention_ms: int = -1

    @property
    def waiting(self) -> int:
        """Records that it has not read, and that are still there."""
        return max(0, self.end - max(self.committed, self.first))


class Group(msgspec.Struct, frozen=True):
    """A group as the brokers know it; `places` are those of partitions for which it has committed."""

    name: str
    members: tuple[Member, ...]
    places: tuple[Place, ...]


def group_findings(group: Group, partitions: int, now_ms: int) -> Iterator[Finding]:
    """What is wrong with it; `partitions` of the topics that it reads, the largest number."""
    waiting = sum(place.waiting for place in group.places)
    text = f"{count(len(group.members), 'member')}, {count(waiting, 'record')} to be read"
    if not group.members and not group.places:
        text = "nobody was ever in it: no worker has been started"
    name = f"group {group.name}"
    yield from or_all_is_well(name, text, _of_group(group, name, waiting, partitions, now_ms))


def _of_group(group: Group, name: str, waiting: int, partitions: int, now_ms: int) -> Iterator[Finding]:
    for member in sorted(
        {(client.client_id, client.host) for client in group.members if client.client_id != CLIENT_ID}
    ):
        text = f"{sanitize(member[0])} at {member[1]} is none of our workers: what it is given, nobody looks at"
        yield problem(name, text, "give that program a group of its own")
    if not group.members and group.places:
        yield warning(name, f"nobody is in it, {waiting} records wait", "start `epicenter worker`")
    elif waiting >= LAG_IS_LARGE:
        yield warning(name, f"{waiting} records wait", MORE_WORKERS)
    if len(group.members) > partitions > 0:
        text = f"{len(group.members)} workers share {partitions} partitions: some have nothing to do"
        yield warning(name, text, "add partitions to the topic, or start fewer workers")
    for place in group.places:
        yield from _of_place(place, name, now_ms)


def _of_place(place: Place, name: str, now_ms: int) -> Iterator[Finding]:
    if 0 <= place.committed < place.first:
        lost = place.first - place.committed
        text = f"{place.source}: {lost} records were deleted before they were read"
        yield problem(name, text, MORE_WORKERS)
    elif place.waiting and place.oldest_ms is not None and place.retention_ms > 0:
        age_ms = max(0, now_ms - place.oldest_ms)
        if age_ms > SHARE_OF_RETENTION * place.retention_ms:
            text = (
                f"{place.source}: the record that is read next is {length(age_ms)} old, and records are kept for"
                f" {length(place.retention_ms)}: they are about to be lost"
            )
            yield problem(name, text, MORE_WORKERS)
