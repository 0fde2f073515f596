"""Signals with their incidents, gaps in the evidence, deliveries, dead letters and samples as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from epicenter.rules.model.ledger import DeadLetter, Delivery, Gap, Joined, Sample
from epicenter.rules.model.times import iso_ns
from epicenter.sinks.clickhouse.rows.shape import (
    LAST_MINUTE_S,
    NAME,
    TIME,
    Columns,
    Rows,
    int64,
    optional_int64,
    rows_of,
)

SIGNALS: Final[Columns] = (
    ("signal_id", "String"),
    ("incident_id", "String"),
    ("event_time", TIME),
    ("onset", TIME),
    ("rule", NAME),
    ("class", NAME),
    ("severity", NAME),
    ("role", NAME),
    ("cluster", NAME),
    ("source", NAME),
    ("node", NAME),
    ("job", "String"),
    ("rank", "Nullable(Int64)"),
    ("gpu", NAME),
    ("text", "String"),
)

EVIDENCE_GAPS: Final[Columns] = (
    ("gap_id", "String"),
    ("kind", NAME),
    ("cluster", NAME),
    ("node", NAME),
    ("job", "String"),
    ("source", "String"),
    ("begins", TIME),
    ("ends", TIME),
    ("records", "Nullable(UInt64)"),
    ("text", "String"),
)

DELIVERIES: Final[Columns] = (
    ("notification_id", "String"),
    ("target", NAME),
    ("outcome", NAME),
    ("incident_id", "String"),
    ("revision", "UInt64"),
    ("kind", NAME),
    ("reason", "String"),
    ("event_time", TIME),
    ("decided", TIME),
)

DEAD_LETTERS: Final[Columns] = (
    ("dead_letter_id", "String"),
    ("kind", NAME),
    ("reason", "String"),
    ("position_source", NAME),
    ("position_offset", "Int64"),
    ("size_bytes", "UInt64"),
    ("value", "String"),
    ("key", "Nullable(String)"),
    ("received", TIME),
)

PIPELINE_METRICS: Final[Columns] = (
    ("time", "DateTime('UTC')"),
    ("process", NAME),
    ("name", NAME),
    ("labels", "Map(LowCardinality(String), String)"),
    ("value", "Float64"),
)


def signal_rows(joined: Sequence[Joined]) -> Rows:
    """One row a signal that went into an incident."""
    return rows_of("signals", SIGNALS, map(_signal_row, joined))


def gap_rows(gaps: Sequence[Gap]) -> Rows:
    """One row a gap in the evidence."""
    return rows_of("evidence_gaps", EVIDENCE_GAPS, map(_gap_row, gaps))


def delivery_rows(deliveries: Sequence[Delivery]) -> Rows:
    """One row per notification, target and outcome."""
    return rows_of("deliveries", DELIVERIES, map(_delivery_row, deliveries))


def dead_letter_rows(dead_letters: Sequence[DeadLetter]) -> Rows:
    """One row per dead letter, with its raw key and value."""
    return rows_of("dead_letters", DEAD_LETTERS, map(_dead_letter_row, dead_letters))


def sample_rows(samples: Sequence[Sample]) -> Rows:
    """One row per metric value of a process."""
    return rows_of("pipeline_metrics", PIPELINE_METRICS, map(_sample_row, samples))


def _signal_row(joined: Joined) -> tuple[Any, ...]:
    signal = joined.signal
    return (
        signal.signal_id,
        joined.incident_id,
        int64(signal.event_time_ns),
        int64(signal.onset_ns),
        signal.rule,
        signal.failure_class,
        signal.severity,
        signal.role,
        signal.cluster,
        signal.source,
        signal.node,
        signal.job,
        optional_int64(signal.rank),
        signal.gpu,
        signal.text,
    )


def _gap_row(gap: Gap) -> tuple[Any, ...]:
    return (
        gap.gap_id,
        gap.kind,
        gap.cluster,
        gap.node,
        gap.job,
        gap.source,
        int64(gap.begins_ns),
        int64(gap.ends_ns),
        optional_int64(gap.records),
        gap.text,
    )


def _delivery_row(delivery: Delivery) -> tuple[Any, ...]:
    return (
        delivery.notification_id,
        delivery.target,
        delivery.outcome.value,
        delivery.incident_id,
        delivery.revision,
        delivery.kind,
        delivery.reason,
        int64(iso_ns(delivery.event_time)),
        int64(delivery.decided_ns),
    )


def _dead_letter_row(dead_letter: DeadLetter) -> tuple[Any, ...]:
    return (
        dead_letter.dead_letter_id,
        dead_letter.kind.value,
        dead_letter.reason,
        dead_letter.position.source,
        int64(dead_letter.position.offset),
        dead_letter.size_bytes,
        dead_letter.value,
        dead_letter.key,
        int64(dead_letter.received_ns),
    )


def _sample_row(sample: Sample) -> tuple[Any, ...]:
    return (min(int64(sample.time_s), LAST_MINUTE_S), sample.process, sample.name, sample.labels, sample.value)
