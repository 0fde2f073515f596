"""What happened, as columns in the shape of the ClickHouse tables."""

from sinks.clickhouse.rows.beats import LIVENESS, PLACEMENTS, PROGRESS, liveness_rows, placement_rows, progress_rows
from sinks.clickhouse.rows.incidents import (
    INCIDENT_REVISIONS,
    INCIDENTS,
    incident_revision_rows,
    incident_rows,
    words_of,
)
from sinks.clickhouse.rows.matches import (
    CAPACITY_EVENTS,
    MATCHES,
    MEASUREMENTS,
    RuleFacts,
    capacity_rows,
    gaps_in,
    match_rows,
    measurement_rows,
)
from sinks.clickhouse.rows.shape import INT64_MAX, Columns, Rows
from sinks.clickhouse.rows.signals import (
    DEAD_LETTERS,
    DELIVERIES,
    EVIDENCE_GAPS,
    PIPELINE_METRICS,
    SIGNALS,
    dead_letter_rows,
    delivery_rows,
    gap_rows,
    sample_rows,
    signal_rows,
)

__all__ = [
    "CAPACITY_EVENTS",
    "DEAD_LETTERS",
    "DELIVERIES",
    "EVIDENCE_GAPS",
    "INCIDENTS",
    "INCIDENT_REVISIONS",
    "INT64_MAX",
    "LIVENESS",
    "MATCHES",
    "MEASUREMENTS",
    "PIPELINE_METRICS",
    "PLACEMENTS",
    "PROGRESS",
    "SIGNALS",
    "Columns",
    "Rows",
    "RuleFacts",
    "capacity_rows",
    "dead_letter_rows",
    "delivery_rows",
    "gap_rows",
    "gaps_in",
    "incident_revision_rows",
    "incident_rows",
    "liveness_rows",
    "match_rows",
    "measurement_rows",
    "placement_rows",
    "progress_rows",
    "sample_rows",
    "signal_rows",
    "words_of",
]
