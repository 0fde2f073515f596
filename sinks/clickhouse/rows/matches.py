"""Matches as columns, and what their rules record: capacity events, measurements, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from epicenter.rules.detect.inputs import number_in
from epicenter.rules.detect.signal import pci_address
from epicenter.rules.model.ledger import Gap
from epicenter.rules.model.records import Match
from epicenter.rules.packs.recorded import Recorded
from epicenter.sinks.clickhouse.rows.shape import (
    NAME,
    TIME,
    Columns,
    Rows,
    int32,
    int64,
    minute_s,
    optional_int64,
    rows_of,
)

MAX_COUNTED: Final = 2**32 - 1
MAX_TEXT: Final = 500
"""At most this many characters of a line that is not evidence."""

MATCHES: Final[Columns] = (
    ("match_id", "String"),
    ("event_time", TIME),
    ("rule", NAME),
    ("class", NAME),
    ("severity", NAME),
    ("role", NAME),
    ("cluster", NAME),
    ("source", NAME),
    ("node", NAME),
    ("job", "String"),
    ("rank", "Nullable(Int64)"),
    ("fields", "Map(LowCardinality(String), String)"),
    ("text", "String"),
    ("position_source", NAME),
    ("position_offset", "Int64"),
)

CAPACITY_EVENTS: Final[Columns] = (
    ("event_id", "String"),
    ("event_time", TIME),
    ("kind", NAME),
    ("cluster", NAME),
    ("job", "String"),
    ("node", NAME),
    ("pod", "String"),
    ("count", "UInt32"),
    ("rule", NAME),
    ("text", "String"),
)

MEASUREMENTS: Final[Columns] = (
    ("cluster", NAME),
    ("name", NAME),
    ("job", "String"),
    ("node", NAME),
    ("rank", "Int32"),
    ("device", NAME),
    ("minute", "DateTime('UTC')"),
    ("smallest", "Float64"),
    ("largest", "Float64"),
)


class RuleFacts(Protocol):
    """What rows need from a match's rule; `RuleSpec` provides it."""

    @property
    def failure_class(self) -> str:
        """The class of failure, such as `gpu.fell_off_bus`."""

    @property
    def severity(self) -> str:
        """One of `rules.model.signals.SEVERITIES`."""

    @property
    def role(self) -> str:
        """One of `rules.packs.spec.Role`."""

    @property
    def source(self) -> str:
        """The rule's source, used when the line has none."""

    @property
    def recorded_as(self) -> Recorded | None:
        """What its lines are recorded as, besides matches."""


Found = Sequence[tuple[Match, RuleFacts]]
"""Matches with the facts of their rules."""


def match_rows(found: Found) -> Rows:
    """One row per match, with the class, severity and role of its rule."""
    return rows_of("matches", MATCHES, (_match_row(match, facts) for match, facts in found))


def capacity_rows(found: Found) -> Rows:
    """One row per line whose rule records a capacity event."""
    recorded = ((match, facts.recorded_as.capacity) for match, facts in found if facts.recorded_as)
    return rows_of("capacity_events", CAPACITY_EVENTS, (_capacity_row(match, kind) for match, kind in recorded if kind))


def measurement_rows(found: Found) -> Rows:
    """One row per measurement, job, node, rank, device and minute: the smallest and the largest value."""
    ends: dict[tuple[Any, ...], list[float]] = {}
    for match, facts in found:
        for key, value in _measured(match, facts.recorded_as):
            known = ends.setdefault(key, [value, value])
            known[0], known[1] = min(known[0], value), max(known[1], value)
    return rows_of("measurements", MEASUREMENTS, ((*key, *ends[key]) for key in sorted(ends)))


def gaps_in(found: Found) -> list[Gap]:
    """The gaps that loggers report about themselves."""
    found_records = ((match, facts.recorded_as) for match, facts in found if facts.recorded_as)
    return [_gap(match, recorded.gap) for match, recorded in found_records if recorded.gap]


def _match_row(match: Match, facts: RuleFacts) -> tuple[Any, ...]:
    event = match.event
    return (
        match.match_id,
        int64(event.event_time_ns),
        match.rule,
        facts.failure_class,
        facts.severity,
        facts.role,
        event.cluster,
        event.source or facts.source,
        event.node,
        event.job,
        optional_int64(event.rank),
        match.fields,
        event.text,
        event.position.source,
        int64(event.position.offset),
    )


def _capacity_row(match: Match, kind: str) -> tuple[Any, ...]:
    event, fields = match.event, match.fields
    return (
        match.match_id,
        int64(event.event_time_ns),
        kind,
        event.cluster,
        event.job or fields.get("job", ""),
        fields.get("node", ""),
        fields.get("pod") or event.pod,
        _count(fields),
        match.rule,
        event.text[:MAX_TEXT],
    )


def _count(fields: dict[str, str]) -> int:
    """The number of nodes or GPUs in the line; 1 if it has none."""
    number = number_in(fields.get("nodes") or fields.get("count") or fields.get("short_gpu") or "")
    return 1 if number is None else min(max(int(number), 0), MAX_COUNTED)


def _measured(match: Match, recorded: Recorded | None) -> Iterator[tuple[tuple[Any, ...], float]]:
    event, fields = match.event, match.fields
    for field, number in recorded.numbers.items() if recorded else ():
        value = number_in(fields.get(field, ""))
        if value is not None:
            yield (
                (
                    event.cluster,
                    number.name,
                    event.job or fields.get("job", ""),
                    fields.get("node") or event.node,
                    int32(_rank(match)),
                    pci_address(fields.get("pci", "")) or fields.get("device", ""),
                    minute_s(event.event_time_ns),
                ),
                value * number.times,
            )


def _rank(match: Match) -> int | None:
    rank = number_in(match.fields.get("rank", ""))
    return match.event.rank if match.event.rank is not None or rank is None else int(rank)


def _gap(match: Match, kind: str) -> Gap:
    event = match.event
    lost = number_in(match.fields.get("lost", ""))
    return Gap(
        gap_id=match.match_id,
        kind=kind,
        cluster=event.cluster,
        node=event.node,
        job=event.job,
        source=event.position.source,
        begins_ns=event.event_time_ns,
        ends_ns=event.event_time_ns,
        records=None if lost is None else int(lost),
        text=event.text[:MAX_TEXT],
    )
