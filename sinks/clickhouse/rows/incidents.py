"""Incidents and their revisions as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import iso_ns
from epicenter.sinks.clickhouse.rows.shape import NAME, TIME, Columns, Rows, clean, int64, optional_int64, rows_of

MAX_SEARCH_LENGTH: Final = 32_768
"""At most this many characters of an incident are searchable; enough for all but the largest."""

MAX_SHOWN_JOBS: Final = 16
MAX_LINE_LENGTH: Final = 500
"""At most this many characters of a line are searchable."""

INCIDENTS: Final[Columns] = (
    ("incident_id", "String"),
    ("revision", "UInt64"),
    ("status", NAME),
    ("class", NAME),
    ("severity", NAME),
    ("title", "String"),
    ("cluster", NAME),
    ("jobs", "Array(String)"),
    ("nodes", "Array(String)"),
    ("root_class", NAME),
    ("root_rule", NAME),
    ("root_node", "String"),
    ("root_rank", "Nullable(Int64)"),
    ("root_gpu", "String"),
    ("root_event_time", TIME),
    ("confidence", "Float64"),
    ("blast_nodes", "UInt32"),
    ("blast_ranks", "UInt32"),
    ("blast_jobs", "UInt32"),
    ("blast_gpus", "UInt32"),
    ("first_seen", TIME),
    ("last_seen", TIME),
    ("signal_count", "UInt64"),
    ("action", NAME),
    ("verdict", NAME),
    ("steps_lost", "Nullable(Int64)"),
    ("gpu_hours_lost", "Nullable(Float64)"),
    ("merged_into", "String"),
    ("document", "String"),
    ("words", "String"),
    ("writer", NAME),
)

INCIDENT_REVISIONS: Final[Columns] = (
    ("incident_id", "String"),
    ("revision", "UInt64"),
    ("status", NAME),
    ("class", NAME),
    ("severity", NAME),
    ("cluster", NAME),
    ("confidence", "Float64"),
    ("last_seen", TIME),
    ("signal_count", "UInt64"),
    ("document", "String"),
)


def incident_rows(incidents: Sequence[Incident], writer: str = "") -> Rows:
    """One row per incident: its newest revision in the batch, and the installation that writes it."""
    newest: dict[str, Incident] = {}
    for incident in incidents:
        known = newest.get(incident.incident_id)
        if known is None or incident.revision >= known.revision:
            newest[incident.incident_id] = incident
    return rows_of("incidents", INCIDENTS, (_incident_row(incident, writer) for incident in newest.values()))


def incident_revision_rows(incidents: Sequence[Incident]) -> Rows:
    """One row per revision."""
    return rows_of("incident_revisions", INCIDENT_REVISIONS, map(_revision_row, incidents))


def search_text(incident: Incident) -> str:
    """The searchable text of an incident in lower case: its identity, places and log lines."""
    return "\n".join(dict.fromkeys(_search_terms(incident)))[:MAX_SEARCH_LENGTH].lower()


def _search_terms(incident: Incident) -> Iterator[str]:
    """Identity first, then log lines, then affected nodes and jobs, of which there may be thousands."""
    root, chain, evidence = incident.root_cause, incident.chain, incident.evidence
    yield from (incident.incident_id, incident.title, incident.failure_class, incident.cluster, incident.verdict)
    yield from (root.rule, root.gpu)
    yield from (candidate.failure_class for candidate in incident.candidates)
    yield from (link.failure_class for link in chain)
    yield from (root.node, *incident.jobs[:MAX_SHOWN_JOBS])
    yield from (f"rank {rank}" for rank in (root.rank, *(link.rank for link in chain)) if rank is not None)
    yield from (line.text[:MAX_LINE_LENGTH] for line in evidence)
    yield from (link.text[:MAX_LINE_LENGTH] for link in chain)
    yield from (*incident.nodes, *incident.jobs)


def _incident_row(incident: Incident, writer: str) -> tuple[Any, ...]:
    root, blast, cost = incident.root_cause, incident.blast_radius, incident.cost
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
        optional_int64(root.rank),
        root.gpu,
        int64(iso_ns(root.event_time)),
        root.confidence,
        blast.nodes,
        blast.ranks,
        blast.jobs,
        blast.gpus,
        int64(iso_ns(incident.first_seen)),
        int64(iso_ns(incident.last_seen)),
        incident.signal_count,
        incident.action,
        incident.verdict,
        optional_int64(cost.steps_lost),
        cost.gpu_hours_lost,
        incident.merged_into,
        _document(incident),
        search_text(incident),
        writer,
    )


def _revision_row(incident: Incident) -> tuple[Any, ...]:
    return (
        incident.incident_id,
        incident.revision,
        incident.status,
        incident.failure_class,
        incident.severity,
        incident.cluster,
        incident.root_cause.confidence,
        int64(iso_ns(incident.last_seen)),
        incident.signal_count,
        _document(incident),
    )


def _document(incident: Incident) -> str:
    try:
        return msgspec.json.encode(incident).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(clean(msgspec.to_builtins(incident))).decode()
