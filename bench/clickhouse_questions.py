"""The queries of the page and the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import time_ns

from bench.clickhouse_fill import BIG_INCIDENT, BIG_JOB
from epicenter.rules.errors import InputError
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.freshness import store_state
from epicenter.sinks.clickhouse.jobs import list_jobs, list_ranks
from epicenter.sinks.clickhouse.named import named_incident
from epicenter.sinks.clickhouse.nodes import node_counts, node_jobs, node_matches
from epicenter.sinks.clickhouse.overview import group_incidents, incidents_by_day
from epicenter.sinks.clickhouse.reading import (
    IncidentFilter,
    find_incidents,
    incident_changes,
    incident_deliveries,
    incident_groups,
    incident_ranks,
    newest_change,
    similar_incidents,
)

PAGE: int = 100


def questions(client: Client) -> Iterator[tuple[str, Callable[[], object]]]:
    """Name and query."""
    big = named_incident(client, BIG_INCIDENT)
    if big is None:
        raise InputError(f"{BIG_INCIDENT}: the store was not filled")
    filters = {
        "newest first": IncidentFilter(),
        "open": IncidentFilter(status="open"),
        "of a class": IncidentFilter(failure_class="xid-79"),
        "of a node": IncidentFilter(node="gpu-7"),
        "of a job": IncidentFilter(job=BIG_JOB),
        "with words": IncidentFilter(terms=["gpu-1234", "ended"]),
        "with words that none has": IncidentFilter(terms=["zebra"]),
    }
    for name, wanted in filters.items():
        yield f"page: incidents {name}", lambda wanted=wanted: find_incidents(client, wanted, PAGE)
    yield "page: one incident", lambda: named_incident(client, BIG_INCIDENT)
    yield "page: one incident by a prefix of its id", lambda: named_incident(client, BIG_INCIDENT[:6])
    yield "page: incidents by day", lambda: incidents_by_day(client, IncidentFilter())
    yield "page: incidents by node", lambda: group_incidents(client, IncidentFilter(), "node", PAGE)
    yield "page: newest line and clusters", lambda: store_state(client)
    yield "page: incidents of a node, counted", lambda: node_counts(client, "gpu-7", "", time_ns())
    yield "page: kernel matches of a node", lambda: node_matches(client, "gpu-7", "")
    yield "page: jobs of a node", lambda: node_jobs(client, "gpu-7", "")
    yield "page: groups", lambda: incident_groups(client)
    yield "page: newest change", lambda: newest_change(client)
    yield "page: similar incidents", lambda: similar_incidents(client, big)
    yield "page: changes of an incident", lambda: incident_changes(client, BIG_INCIDENT)
    yield "page: deliveries of an incident", lambda: incident_deliveries(client, BIG_INCIDENT)
    yield "page: ranks of an incident of 65,536 signals", lambda: incident_ranks(client, BIG_INCIDENT)
    yield "page: jobs", lambda: list_jobs(client)
    yield "page: 4,096 ranks of a job", lambda: list_ranks(client, "east", BIG_JOB)
