"""Dead letters out of the store, and the memory of which of them were sent again."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.errors import DeadLetterKind
from epicenter.rules.model.ledger import DeadLetter
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import iso_from_ns, iso_ns
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.reading import MIN_PREFIX_LENGTH
from epicenter.sinks.clickhouse.rows import Columns

REPLAYS: Final[Columns] = (
    ("dead_letter_id", "String"),
    ("number", "UInt32"),
    ("first_source", "LowCardinality(String)"),
    ("first_offset", "Int64"),
    ("sent_source", "LowCardinality(String)"),
    ("sent_offset", "Int64"),
    ("sent", "DateTime64(9, 'UTC')"),
)
_SHORT: Final = "dead_letter_id, kind, reason, position_source, position_offset, size_bytes, received_ns, replays"
_LETTERS: Final = """
    SELECT *, toUnixTimestamp64Nano(received) AS received_ns, ifNull(known.times, 0) AS replays
    FROM (SELECT * FROM dead_letters FINAL) AS letters
    LEFT JOIN (SELECT dead_letter_id, count() AS times FROM dead_letter_replays FINAL GROUP BY dead_letter_id) AS known
    USING dead_letter_id
"""


class DeadLetterFilter(msgspec.Struct, frozen=True):
    """Which dead letters: `reason` is in it, its source begins with `source`, received at or after `since_ns`."""

    reason: str = ""
    source: str = ""
    since_ns: int = 0


class Replay(msgspec.Struct, frozen=True):
    """One sending of a dead letter's record: the position that it first had, the one it has now, the time of it."""

    dead_letter_id: str
    number: int
    first: Position
    sent: Position
    sent_ns: int


class StoredDeadLetters:
    """The dead letters of one store."""

    def __init__(self, client: Client):
        self._client = client

    def newest(self, wanted: DeadLetterFilter, limit: int) -> list[dict[str, Any]]:
        """Documents without the bytes, the newest first."""
        found = self._client.query(
            f"SELECT {_SHORT} FROM ({_LETTERS}) WHERE {_FITS} ORDER BY received_ns DESC, dead_letter_id"
            " LIMIT {limit:UInt32}",
            {**msgspec.structs.asdict(wanted), "limit": limit},
        )
        return [_document(row) for row in found]

    def get(self, dead_letter_id: str) -> dict[str, Any] | None:
        """The document with key and value in base64, by the id or by a beginning of it that only this letter has."""
        found = self._client.query(
            f"SELECT {_SHORT}, base64Encode(key), base64Encode(value) FROM ({_LETTERS})"
            " WHERE startsWith(dead_letter_id, {prefix:String}) ORDER BY dead_letter_id LIMIT 2",
            {"prefix": dead_letter_id},
        )
        if found and (found[0][0] == dead_letter_id or (len(found) == 1 and len(dead_letter_id) >= MIN_PREFIX_LENGTH)):
            *short, key, value = found[0]
            return {**_document(short), "key_base64": key, "value_base64": value}
        return None

    def waiting(self, wanted: DeadLetterFilter) -> list[str]:
        """The ids of those that were never sent again, in the order in which they were received."""
        found = self._client.query(
            f"SELECT dead_letter_id FROM ({_LETTERS}) WHERE replays = 0 AND {_FITS}"
            " ORDER BY received_ns, position_source, position_offset",
            msgspec.structs.asdict(wanted),
        )
        return [str(dead_letter_id) for (dead_letter_id,) in found]

    def replay_that_made(self, position: Position) -> Replay | None:
        """The sending that put a record at this position, if it was one of ours."""
        found = self._client.query(
            "SELECT dead_letter_id, number, first_source, first_offset, toUnixTimestamp64Nano(sent)"
            " FROM dead_letter_replays FINAL"
            " WHERE sent_source = {source:String} AND sent_offset = {offset:Int64} ORDER BY sent DESC LIMIT 1",
            msgspec.structs.asdict(position),
        )
        for dead_letter_id, number, source, offset, sent_ns in found:
            return Replay(dead_letter_id, number, Position(source, offset), position, sent_ns)
        return None

    def note(self, replays: Sequence[Replay]) -> None:
        """Remember what was sent."""
        rows = [
            (
                one.dead_letter_id,
                one.number,
                *msgspec.structs.astuple(one.first),
                *msgspec.structs.astuple(one.sent),
                one.sent_ns,
            )
            for one in replays
        ]
        names, types = zip(*REPLAYS, strict=True)
        self._client.insert("dead_letter_replays", list(zip(*rows, strict=True)), names, types, {})


_FITS: Final = (
    "positionCaseInsensitiveUTF8(reason, {reason:String}) > 0 AND startsWith(position_source, {source:String})"
    " AND received_ns >= {since_ns:Int64}"
)


def dead_letter_of(document: dict[str, Any]) -> DeadLetter:
    """The dead letter of a document that `Letters.get` gave."""
    key = document["key_base64"]
    return DeadLetter(
        dead_letter_id=document["dead_letter_id"],
        reason=document["reason"],
        position=Position(document["source"], document["offset"]),
        size_bytes=document["size_bytes"],
        value=base64.b64decode(document["value_base64"]),
        key=None if key is None else base64.b64decode(key),
        received_ns=iso_ns(document["received"]),
        kind=DeadLetterKind(document.get("kind", "")),
    )


def _document(row: Sequence[Any]) -> dict[str, Any]:
    dead_letter_id, kind, reason, source, offset, size_bytes, received_ns, replays = row
    return {
        "dead_letter_id": dead_letter_id,
        "kind": kind,
        "reason": reason,
        "source": source,
        "offset": offset,
        "size_bytes": size_bytes,
        "received": iso_from_ns(received_ns),
        "replays": replays,
    }
