"""What people say: feedback on incidents, acknowledgements and silences; the newest word of each counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.alerts.silences import Silence
from epicenter.rules.model.notification import Acknowledgement
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.rows import Columns

VERDICTS: Final = ("right", "wrong")
_TIME: Final = "DateTime64(9, 'UTC')"

FEEDBACK: Final[Columns] = (
    ("incident_id", "String"),
    ("who", "String"),
    ("given", _TIME),
    ("revision", "UInt64"),
    ("verdict", "LowCardinality(String)"),
    ("true_class", "LowCardinality(String)"),
    ("note", "String"),
)

ACKNOWLEDGEMENTS: Final[Columns] = (
    ("incident_id", "String"),
    ("who", "String"),
    ("given", _TIME),
    ("note", "String"),
    ("is_taken_back", "Bool"),
)

SILENCES: Final[Columns] = (
    ("silence_id", "String"),
    ("changed", _TIME),
    ("matchers", "Map(LowCardinality(String), String)"),
    ("begins", _TIME),
    ("ends", _TIME),
    ("who", "String"),
    ("reason", "String"),
)


class Feedback(msgspec.Struct, frozen=True):
    """Somebody's verdict on an incident as it stood at `revision`; `true_class` is what it really was, if told."""

    incident_id: str
    who: str
    given_ns: int
    revision: int
    verdict: str
    true_class: str = ""
    note: str = ""


def write_feedback(client: Client, feedback: Feedback) -> None:
    """Keep it; an earlier word of the same person on the same incident counts no more."""
    _insert(client, "feedback", FEEDBACK, msgspec.structs.astuple(feedback))


def list_feedback(client: Client, incident_id: str) -> list[Feedback]:
    """What people say of an incident now, the newest first."""
    found = client.query(
        "SELECT incident_id, who, toUnixTimestamp64Nano(given), revision, verdict, true_class, note"
        " FROM feedback FINAL WHERE incident_id = {id:String} ORDER BY given DESC, who LIMIT 100",
        {"id": incident_id},
    )
    return [Feedback(*row) for row in found]


def write_acknowledgement(client: Client, acknowledgement: Acknowledgement) -> None:
    """Keep it beside the earlier ones."""
    _insert(client, "acknowledgements", ACKNOWLEDGEMENTS, msgspec.structs.astuple(acknowledgement))


def list_acknowledgements(
    client: Client, given_after_ns: int = 0, incident_ids: Collection[str] | None = None
) -> list[Acknowledgement]:
    """Every word given after a time by the clock of who wrote it, on these incidents or on all; the oldest first."""
    given: dict[str, object] = {"after": given_after_ns}
    condition = ""
    if incident_ids is not None:
        given["ids"], condition = list(incident_ids), " AND incident_id IN {ids:Array(String)}"
    found = client.query(
        "SELECT incident_id, who, toUnixTimestamp64Nano(given), note, is_taken_back FROM acknowledgements FINAL"
        f" WHERE toUnixTimestamp64Nano(given) > {{after:Int64}}{condition} ORDER BY given, incident_id, who",
        given,
    )
    return [Acknowledgement(*row) for row in found]


def standing(words: Iterable[Acknowledgement]) -> dict[str, Acknowledgement]:
    """Who takes care of each incident now, by its id, of words with the oldest first."""
    newest = {word.incident_id: word for word in words}
    return {incident_id: word for incident_id, word in newest.items() if not word.is_taken_back}


def write_silence(client: Client, silence: Silence) -> None:
    """Keep it, in place of what was known under its id."""
    row = (
        silence.silence_id,
        silence.changed_ns,
        dict(silence.matchers),
        silence.begins_ns,
        silence.ends_ns,
        silence.who,
        silence.reason,
    )
    _insert(client, "silences", SILENCES, row)


def list_silences(client: Client, ending_after_ns: int = 0, limit: int = 500) -> list[Silence]:
    """Silences that end after a time, the one that ends last first."""
    found = client.query(
        "SELECT silence_id, matchers, toUnixTimestamp64Nano(begins), toUnixTimestamp64Nano(ends), who, reason,"
        " toUnixTimestamp64Nano(changed) FROM silences FINAL WHERE toUnixTimestamp64Nano(ends) > {after:Int64}"
        " ORDER BY ends DESC, silence_id LIMIT {limit:UInt32}",
        {"after": ending_after_ns, "limit": limit},
    )
    return [Silence(*row) for row in found]


def _insert(client: Client, table: str, columns: Columns, row: Sequence[Any]) -> None:
    names, types = zip(*columns, strict=True)
    client.insert(table, [[value] for value in row], names, types, {"async_insert": 0})
