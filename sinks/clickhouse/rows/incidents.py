"""Incidents and their revisions as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import iso_ns
from epicenter.sinks.clickhouse.rows.shape import NAME, TIME, Columns, Rows, clean, int64, optional_int64, rows_of

MAX_WORDS: Final = 32_768
"""So many characters of an incident are searched: all of most, of one with thousands of nodes not all their names."""

MAX_SHOWN_JOBS: Final = 16
MAX_LINE_LENGTH: Final = 500
"""So many characters of a line are searched."""

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


def incident_rows(incidents: Sequence[Incident]) -> Rows:
    """One row an incident: its newest revision here."""
    newest: dict[str, Incident] = {}
    for incident in incidents:
        known = newest.get(incident.incident_id)
        if known is None or incident.revision >= known.revision:
            newest[incident.incident_id] = incident
    return rows_of("incidents", INCIDENTS, map(_incident_row, newest.values()))


def incident_revision_rows(incidents: Sequence[Incident]) -> Rows:
    """One row a revision."""
    return rows_of("incident_revisions", INCIDENT_REVISIONS, map(_revision_row, incidents))


def words_of(incident: Incident) -> str:
    """What a search looks through, in lower case, a line a thing: what it is, where, and what the lines say."""
    return "\n".join(dict.fromkeys(_said(incident)))[:MAX_WORDS].lower()


def _said(incident: Incident) -> Iterator[str]:
    """What it is, then the lines, then where it reaches, which may be thousands of names."""
    root, chain, evidence = incident.root_cause, incident.chain, incident.evidence
    yield from (incident.incident_id, incident.title, incident.failure_class, incident.cluster, incident.verdict)
    yield from (root.rule, root.gpu)
    yield from (one.failure_class for one in incident.candidates)
    yield from (link.failure_class for link in chain)
    yield from (root.node, *incident.jobs[:MAX_SHOWN_JOBS])
    yield from (f"rank {rank}" for rank in (root.rank, *(link.rank for link in chain)) if rank is not None)
    yield from (line.text[:MAX_LINE_LENGTH] for line in evidence)
    yield from (link.text[:MAX_LINE_LENGTH] for link in chain)
    yield from (*incident.nodes, *incident.jobs)


def _incident_row(incident: Incident) -> tuple[Any, ...]:
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
        words_of(incident),
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
