"""Stored dead letters, and which of them were replayed."""

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
from epicenter.sinks.clickhouse.named import MAX_CANDIDATES, the_one
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
_SUMMARY: Final = "dead_letter_id, kind, reason, position_source, position_offset, size_bytes, received_ns, replays"
_DEAD_LETTERS: Final = """
    SELECT *, toUnixTimestamp64Nano(received) AS received_ns, ifNull(known.times, 0) AS replays
    FROM (SELECT * FROM dead_letters FINAL) AS dead_letters_now
    LEFT JOIN (SELECT dead_letter_id, count() AS times FROM dead_letter_replays FINAL GROUP BY dead_letter_id) AS known
    USING dead_letter_id
"""


class DeadLetterFilter(msgspec.Struct, frozen=True):
    """Selects dead letters whose reason contains `reason`, whose source begins with `source`, from `since_ns`."""

    reason: str = ""
    source: str = ""
    since_ns: int = 0


class Replay(msgspec.Struct, frozen=True):
    """One replay of a dead letter: its original position, its new position and the time."""

    dead_letter_id: str
    number: int
    first: Position
    sent: Position
    sent_ns: int


class StoredDeadLetters:
    """The dead letters of one store."""

    def __init__(self, client: Client):
        self._client = client

    def newest(self, selected: DeadLetterFilter, limit: int) -> list[dict[str, Any]]:
        """Documents without their bytes, newest first."""
        found = self._client.query(
            f"SELECT {_SUMMARY} FROM ({_DEAD_LETTERS}) WHERE {_MATCHES} ORDER BY received_ns DESC, dead_letter_id"
            " LIMIT {limit:UInt32}",
            {**msgspec.structs.asdict(selected), "limit": limit},
        )
        return [_document(row) for row in found]

    def get(self, dead_letter_id: str) -> dict[str, Any]:
        """The document with key and value in base64, by id or unique prefix.

        Raises:
            UnknownIdError: there is none, or there are several.
        """
        found = self._client.query(
            f"SELECT {_SUMMARY}, base64Encode(key), base64Encode(value) FROM ({_DEAD_LETTERS})"
            " WHERE startsWith(dead_letter_id, {prefix:String}) ORDER BY dead_letter_id LIMIT {limit:UInt32}",
            {"prefix": dead_letter_id, "limit": MAX_CANDIDATES + 1},
        )
        documents = {row[0]: {**_document(row[:-2]), "key_base64": row[-2], "value_base64": row[-1]} for row in found}
        about = [(each, f"{document['source']}:{document['offset']}") for each, document in documents.items()]
        return documents[the_one("dead letter", dead_letter_id, about)]

    def never_replayed(self, selected: DeadLetterFilter) -> list[str]:
        """The ids of dead letters that were never replayed, in the order received."""
        found = self._client.query(
            f"SELECT dead_letter_id FROM ({_DEAD_LETTERS}) WHERE replays = 0 AND {_MATCHES}"
            " ORDER BY received_ns, position_source, position_offset",
            msgspec.structs.asdict(selected),
        )
        return [str(dead_letter_id) for (dead_letter_id,) in found]

    def replay_that_made(self, position: Position) -> Replay | None:
        """The replay that created the record at this position; None if none did."""
        found = self._client.query(
            "SELECT dead_letter_id, number, first_source, first_offset, toUnixTimestamp64Nano(sent)"
            " FROM dead_letter_replays FINAL"
            " WHERE sent_source = {source:String} AND sent_offset = {offset:Int64} ORDER BY sent DESC LIMIT 1",
            msgspec.structs.asdict(position),
        )
        for dead_letter_id, number, source, offset, sent_ns in found:
            return Replay(dead_letter_id, number, Position(source, offset), position, sent_ns)
        return None

    def record(self, replays: Sequence[Replay]) -> None:
        """Store replays."""
        rows = [
            (
                replay.dead_letter_id,
                replay.number,
                *msgspec.structs.astuple(replay.first),
                *msgspec.structs.astuple(replay.sent),
                replay.sent_ns,
            )
            for replay in replays
        ]
        names, types = zip(*REPLAYS, strict=True)
        self._client.insert("dead_letter_replays", list(zip(*rows, strict=True)), names, types, {})


_MATCHES: Final = (
    "positionCaseInsensitiveUTF8(reason, {reason:String}) > 0 AND startsWith(position_source, {source:String})"
    " AND received_ns >= {since_ns:Int64}"
)


def dead_letter_of(document: dict[str, Any]) -> DeadLetter:
    """The dead letter of a document from `StoredDeadLetters.get`."""
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
