"""Operator actions in the store: feedback, acknowledgements and silences. The newest action counts."""

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
    """Feedback on the diagnosis at `revision`; `true_class` is the actual class, if known."""

    incident_id: str
    who: str
    given_ns: int
    revision: int
    verdict: str
    true_class: str = ""
    note: str = ""


def write_feedback(client: Client, feedback: Feedback) -> None:
    """Store feedback; it replaces earlier feedback of the same person on the same incident."""
    _insert(client, "feedback", FEEDBACK, msgspec.structs.astuple(feedback))


def list_feedback(client: Client, incident_id: str) -> list[Feedback]:
    """The current feedback on an incident, newest first."""
    found = client.query(
        "SELECT incident_id, who, toUnixTimestamp64Nano(given), revision, verdict, true_class, note"
        " FROM feedback FINAL WHERE incident_id = {id:String} ORDER BY given DESC, who LIMIT 100",
        {"id": incident_id},
    )
    return [Feedback(*row) for row in found]


def write_acknowledgements(client: Client, *acknowledgements: Acknowledgement) -> None:
    """Store acknowledgements in one write; earlier ones are kept."""
    _insert(client, "acknowledgements", ACKNOWLEDGEMENTS, *map(msgspec.structs.astuple, acknowledgements))


def list_acknowledgements(
    client: Client, given_after_ns: int = 0, incident_ids: Collection[str] | None = None
) -> list[Acknowledgement]:
    """Acknowledgements given after a time, oldest first; of these incidents, or of all."""
    parameters: dict[str, object] = {"after": given_after_ns}
    condition = ""
    if incident_ids is not None:
        parameters["ids"], condition = list(incident_ids), " AND incident_id IN {ids:Array(String)}"
    found = client.query(
        "SELECT incident_id, who, toUnixTimestamp64Nano(given), note, is_taken_back FROM acknowledgements FINAL"
        f" WHERE toUnixTimestamp64Nano(given) > {{after:Int64}}{condition} ORDER BY given, incident_id, who",
        parameters,
    )
    return [Acknowledgement(*row) for row in found]


def active_acknowledgements(acknowledgements: Iterable[Acknowledgement]) -> dict[str, Acknowledgement]:
    """The active acknowledgement by incident id; the argument is oldest first."""
    newest = {action.incident_id: action for action in acknowledgements}
    return {incident_id: action for incident_id, action in newest.items() if not action.is_taken_back}


def write_silences(client: Client, *silences: Silence) -> None:
    """Store silences in one write; each replaces the one with the same id."""
    rows = [
        (
            silence.silence_id,
            silence.changed_ns,
            dict(silence.matchers),
            silence.begins_ns,
            silence.ends_ns,
            silence.who,
            silence.reason,
        )
        for silence in silences
    ]
    _insert(client, "silences", SILENCES, *rows)


def list_silences(client: Client, ending_after_ns: int = 0, limit: int = 500) -> list[Silence]:
    """Silences that end after a time, the latest end first."""
    found = client.query(
        "SELECT silence_id, matchers, toUnixTimestamp64Nano(begins), toUnixTimestamp64Nano(ends), who, reason,"
        " toUnixTimestamp64Nano(changed) FROM silences FINAL WHERE toUnixTimestamp64Nano(ends) > {after:Int64}"
        " ORDER BY ends DESC, silence_id LIMIT {limit:UInt32}",
        {"after": ending_after_ns, "limit": limit},
    )
    return [Silence(*row) for row in found]


def _insert(client: Client, table: str, columns: Columns, *rows: Sequence[Any]) -> None:
    names, types = zip(*columns, strict=True)
    client.insert(table, list(zip(*rows, strict=True)), names, types, {"async_insert": 0})
