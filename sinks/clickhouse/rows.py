"""What happened, as columns: incidents, matches, beats and dead letters in the shape of the ClickHouse tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from rules.errors import InvariantError
from rules.model import NS_PER_S, Beat, DeadLetter, Incident, Match

NS_PER_MINUTE: Final = 60 * NS_PER_S
INT64_MAX: Final = 2**63 - 1
LAST_MINUTE_S: Final = (2**32 - 1) // 60 * 60
"""The last minute that a ClickHouse DateTime can hold, in 2106."""

Columns = tuple[tuple[str, str], ...]

_TIME = "DateTime64(9, 'UTC')"
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

INCIDENTS: Final[Columns] = (
    ("incident_id", "String"),
    ("revision", "UInt64"),
    ("status", "LowCardinality(String)"),
    ("class", "LowCardinality(String)"),
    ("severity", "LowCardinality(String)"),
    ("title", "String"),
    ("cluster", "LowCardinality(String)"),
    ("jobs", "Array(String)"),
    ("nodes", "Array(String)"),
    ("root_class", "LowCardinality(String)"),
    ("root_rule", "LowCardinality(String)"),
    ("root_node", "String"),
    ("root_rank", "Nullable(Int64)"),
    ("root_gpu", "String"),
    ("root_event_time", _TIME),
    ("confidence", "Float64"),
    ("blast_nodes", "UInt32"),
    ("blast_ranks", "UInt32"),
    ("blast_jobs", "UInt32"),
    ("first_seen", _TIME),
    ("last_seen", _TIME),
    ("signal_count", "UInt64"),
    ("action", "LowCardinality(String)"),
    ("merged_into", "String"),
    ("document", "String"),
)

INCIDENT_REVISIONS: Final[Columns] = (
    ("incident_id", "String"),
    ("revision", "UInt64"),
    ("status", "LowCardinality(String)"),
    ("class", "LowCardinality(String)"),
    ("severity", "LowCardinality(String)"),
    ("cluster", "LowCardinality(String)"),
    ("confidence", "Float64"),
    ("last_seen", _TIME),
    ("signal_count", "UInt64"),
    ("document", "String"),
)

MATCHES: Final[Columns] = (
    ("match_id", "String"),
    ("event_time", _TIME),
    ("rule", "LowCardinality(String)"),
    ("class", "LowCardinality(String)"),
    ("severity", "LowCardinality(String)"),
    ("role", "LowCardinality(String)"),
    ("cluster", "LowCardinality(String)"),
    ("source", "LowCardinality(String)"),
    ("node", "LowCardinality(String)"),
    ("job", "String"),
    ("rank", "Nullable(Int64)"),
    ("fields", "Map(LowCardinality(String), String)"),
    ("text", "String"),
    ("position_source", "LowCardinality(String)"),
    ("position_offset", "Int64"),
)

LIVENESS: Final[Columns] = (
    ("cluster", "LowCardinality(String)"),
    ("job", "String"),
    ("node", "LowCardinality(String)"),
    ("minute", "DateTime('UTC')"),
    ("first_event_time", _TIME),
    ("last_event_time", _TIME),
    ("last_step", "Nullable(Int64)"),
)

DEAD_LETTERS: Final[Columns] = (
    ("dead_letter_id", "String"),
    ("reason", "String"),
    ("position_source", "LowCardinality(String)"),
    ("position_offset", "Int64"),
    ("size_bytes", "UInt64"),
    ("value", "String"),
    ("key", "Nullable(String)"),
    ("received", _TIME),
)


class RuleFacts(Protocol):
    """What a match row takes from its rule; a `Signal` has all of it."""

    @property
    def failure_class(self) -> str:
        """The class of failure, such as `gpu.fell_off_bus`."""

    @property
    def severity(self) -> str:
        """One of `rules.model.SEVERITIES`."""

    @property
    def role(self) -> str:
        """One of `rules.spec.Role`."""

    @property
    def source(self) -> str:
        """The source that the rule reads, used when the line does not say its own."""


class Rows(msgspec.Struct, frozen=True):
    """Rows for one table, by column: `columns[i]` holds the values of `names[i]`, of ClickHouse type `types[i]`."""

    table: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    columns: tuple[list[Any], ...]

    def __len__(self) -> int:
        """How many rows."""
        return len(self.columns[0])

    def token(self) -> str:
        """The same for the same rows only. (By ids alone, ClickHouse would drop a changed row without a word.)"""
        return blake2b(msgspec.msgpack.encode((self.table, self.columns)), digest_size=16).hexdigest()


def incident_rows(incidents: Sequence[Incident]) -> Rows:
    """One row an incident: its newest revision here."""
    newest: dict[str, Incident] = {}
    for incident in incidents:
        known = newest.get(incident.incident_id)
        if known is None or incident.revision >= known.revision:
            newest[incident.incident_id] = incident
    return _rows("incidents", INCIDENTS, map(_incident_row, newest.values()))


def incident_revision_rows(incidents: Sequence[Incident]) -> Rows:
    """One row a revision."""
    return _rows("incident_revisions", INCIDENT_REVISIONS, map(_incident_revision_row, incidents))


def match_rows(matches: Sequence[tuple[Match, RuleFacts]]) -> Rows:
    """One row a match, with the class, severity and role of its rule."""
    return _rows("matches", MATCHES, (_match_row(match, facts) for match, facts in matches))


def liveness_rows(beats: Sequence[Beat]) -> Rows:
    """One row for each cluster, job, node and minute: the first and last event time, the highest step."""
    beats_by_key: dict[tuple[str, str, str, int], list[Beat]] = {}
    for beat in beats:
        minute_s = min(_int64(beat.event_time_ns) // NS_PER_MINUTE * 60, LAST_MINUTE_S)
        beats_by_key.setdefault((beat.cluster, beat.job, beat.node, minute_s), []).append(beat)
    return _rows("liveness", LIVENESS, (_liveness_row(*key, group) for key, group in sorted(beats_by_key.items())))


def dead_letter_rows(dead_letters: Sequence[DeadLetter]) -> Rows:
    """One row a dead letter, its value and key byte for byte."""
    return _rows("dead_letters", DEAD_LETTERS, map(_dead_letter_row, dead_letters))


def iso_ns(text: str) -> int:
    """Nanoseconds since the epoch of an ISO 8601 time in UTC, to the last of up to nine digits.

    Raises:
        InvariantError: it is no such time; incidents get theirs from our own core.
    """
    found = _ISO.fullmatch(text)
    if found is None:
        raise InvariantError(f"incident time {text!r}: not like 2026-03-02T09:00:01.123456789Z")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    try:
        whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC) - _EPOCH
    except ValueError as error:
        raise InvariantError(f"incident time {text!r}: {error}") from error
    return (whole.days * 86_400 + whole.seconds) * NS_PER_S + int((found[7] or "").ljust(9, "0"))


def _rows(table: str, columns: Columns, rows: Iterable[tuple[Any, ...]]) -> Rows:
    transposed = tuple([_clean(value) for value in column] for column in zip(*rows, strict=True))
    return Rows(
        table,
        tuple(name for name, _ in columns),
        tuple(kind for _, kind in columns),
        transposed or tuple([] for _ in columns),
    )


def _incident_row(incident: Incident) -> tuple[Any, ...]:
    root, blast = incident.root_cause, incident.blast_radius
    return (
        incident.incident_id,
        incident.revision,
        incident.status,
        incident.failure_class,
        incident.severity,
        incident.title,
        incident.cluster,
        list(incident.jobs),
        list(incident.nodes),
        root.failure_class,
        root.rule,
        root.node,
        _optional_int64(root.rank),
        root.gpu,
        _int64(iso_ns(root.event_time)),
        root.confidence,
        blast.nodes,
        blast.ranks,
        blast.jobs,
        _int64(iso_ns(incident.first_seen)),
        _int64(iso_ns(incident.last_seen)),
        incident.signal_count,
        incident.action,
        incident.merged_into,
        _document(incident),
    )


def _incident_revision_row(incident: Incident) -> tuple[Any, ...]:
    return (
        incident.incident_id,
        incident.revision,
        incident.status,
        incident.failure_class,
        incident.severity,
        incident.cluster,
        incident.root_cause.confidence,
        _int64(iso_ns(incident.last_seen)),
        incident.signal_count,
        _document(incident),
    )


def _match_row(match: Match, facts: RuleFacts) -> tuple[Any, ...]:
    event = match.event
    return (
        match.match_id,
        _int64(event.event_time_ns),
        match.rule,
        facts.failure_class,
        facts.severity,
        facts.role,
        event.cluster,
        event.source or facts.source,
        event.node,
        event.job,
        _optional_int64(event.rank),
        match.fields,
        event.text,
        event.position.source,
        _int64(event.position.offset),
    )


def _liveness_row(cluster: str, job: str, node: str, minute_s: int, beats: list[Beat]) -> tuple[Any, ...]:
    times = [_int64(beat.event_time_ns) for beat in beats]
    steps = [_int64(beat.step) for beat in beats if beat.step is not None]
    return (cluster, job, node, minute_s, min(times), max(times), max(steps, default=None))


def _dead_letter_row(letter: DeadLetter) -> tuple[Any, ...]:
    return (
        letter.dead_letter_id,
        letter.reason,
        letter.position.source,
        _int64(letter.position.offset),
        letter.size_bytes,
        letter.value,
        letter.key,
        _int64(letter.received_ns),
    )


def _document(incident: Incident) -> str:
    try:
        return msgspec.json.encode(incident).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(msgspec.to_builtins(incident))).decode()


def _int64(value: int) -> int:
    """Numbers come from log lines, so they may be absurd; an absurd one must not refuse the whole batch."""
    return min(max(value, 0), INT64_MAX)


def _optional_int64(value: int | None) -> int | None:
    return None if value is None else _int64(value)


def _clean(value: Any) -> Any:
    """The same value, with half surrogates (bytes that were no UTF-8) written out: ClickHouse can't take them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value
