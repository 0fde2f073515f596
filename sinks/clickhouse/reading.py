"""The queries of the page and the commands; one function per query."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.text.incident_document import decode_incident

MAX_REVISIONS: Final = 2_000
MAX_OPEN: Final = 10_000


class IncidentFilter(msgspec.Struct, frozen=True):
    """Selects incidents; empty fields match everything.

    `terms` are lower-case words that must all occur in the incident. `since_ns` bounds the time last seen from below;
    `began_from_ns`, included, and `began_before_ns` bound the time first seen. `writer` is the installation that wrote
    them.
    """

    status: str = ""
    failure_class: str = ""
    cluster: str = ""
    node: str = ""
    job: str = ""
    terms: list[str] = []
    since_ns: int = 0
    severity: str = ""
    began_from_ns: int = 0
    began_before_ns: int = 0
    writer: str = ""


class Similar(msgspec.Struct, frozen=True):
    """A similar incident: what it shares (class, node, GPU, job), and the feedback on it."""

    incident: Incident = msgspec.field(name="document")
    shared: tuple[str, ...]
    verdicts: tuple[str, ...]


class Group(msgspec.Struct, frozen=True):
    """The number of incidents with a cluster, class and status."""

    cluster: str
    failure_class: str
    status: str
    count: int


_CONDITIONS: Final = {
    "status": "status = {status:String}",
    "failure_class": "(class = {failure_class:String} OR root_class = {failure_class:String})",
    "cluster": "cluster = {cluster:String}",
    "node": "(has(nodes, {node:String}) OR root_node = {node:String})",
    "job": "has(jobs, {job:String})",
    "since_ns": "toUnixTimestamp64Nano(last_seen) >= {since_ns:Int64}",
    "severity": "severity = {severity:String}",
    "writer": "writer = {writer:String}",
    "began_from_ns": "toUnixTimestamp64Nano(first_seen) >= {began_from_ns:Int64}",
    "began_before_ns": "toUnixTimestamp64Nano(first_seen) < {began_before_ns:Int64}",
    "terms": "arrayAll(term -> position(words, term) > 0, {terms:Array(String)})",
}


def find_incidents(client: Client, selected: IncidentFilter, limit: int, offset: int = 0) -> list[Incident]:
    """Matching incidents, open ones first, then newest first; merged ones only if a status is selected."""
    condition, parameters = condition_of(selected)
    order = "ORDER BY status = 'open' DESC, last_seen DESC, incident_id"
    found = client.query(
        "SELECT incident_id, document FROM incidents FINAL WHERE incident_id IN ("
        f" SELECT incident_id FROM incidents FINAL WHERE {condition} {order}"
        f" LIMIT {{limit:UInt32}} OFFSET {{offset:UInt32}}) {order}",
        {**parameters, "limit": limit, "offset": offset},
    )
    return [_stored(*row) for row in found]


def open_incidents(client: Client, writer: str) -> list[Incident]:
    """The incidents of an installation that are open, at most `MAX_OPEN`."""
    return find_incidents(client, IncidentFilter(status="open", writer=writer), MAX_OPEN)


def condition_of(selected: IncidentFilter) -> tuple[str, dict[str, Any]]:
    """The SQL condition of a filter, and its parameters."""
    parameters = {name: value for name, value in msgspec.structs.asdict(selected).items() if value}
    conditions = [_CONDITIONS[name] for name in parameters] + ([] if selected.status else ["merged_into = ''"])
    return " AND ".join(conditions), parameters


def get_revision(client: Client, incident_id: str, revision: int) -> Incident | None:
    """The incident at a revision; None if that is no longer stored."""
    found = client.query(
        "SELECT document FROM incident_revisions WHERE incident_id = {id:String} AND revision = {revision:UInt64}"
        " LIMIT 1",
        {"id": incident_id, "revision": revision},
    )
    return _stored(incident_id, found[0][0]) if found else None


def incident_groups(client: Client) -> list[Group]:
    """The number of incidents by cluster, class and status, most frequent first."""
    found = client.query(
        "SELECT cluster, class, status, count() AS incidents FROM incidents FINAL WHERE merged_into = ''"
        " GROUP BY cluster, class, status ORDER BY incidents DESC, class, cluster, status"
    )
    return [Group(*row) for row in found]


class Changes(NamedTuple):
    """Two tokens: `incidents` changes with incidents, operator actions and notification decisions, `jobs` with the
    states of jobs and their ranks.
    """

    incidents: tuple[int, ...]
    jobs: int


def newest_change(client: Client) -> Changes:
    """What tells whether an open page is out of date. A job's step is no change, nor is a state that lasts."""
    found = client.query(
        "SELECT (SELECT sum(cityHash64(incident_id, revision)) FROM incidents),"
        " (SELECT toUnixTimestamp64Nano(max(given)) FROM feedback),"
        " (SELECT toUnixTimestamp64Nano(max(changed)) FROM silences),"
        " (SELECT sum(cityHash64(incident_id, given, who)) FROM acknowledgements),"
        " (SELECT toUnixTimestamp64Nano(max(decided)) FROM deliveries),"
        " (SELECT sum(cityHash64(cluster, job, phase, outcome, verdict, node, rank, text, behind, quiet, lost_nodes))"
        "  FROM job_states FINAL)"
    )
    *incidents, job_states = (int(value or 0) for value in found[0])
    return Changes(tuple(incidents), job_states)


def similar_incidents(client: Client, incident: Incident, limit: int = 8) -> list[Similar]:
    """Other incidents with the same root class, node, GPU or job, the most similar first, then the newest.

    Nodes and jobs are compared within a cluster only: other clusters may reuse names.
    """
    root = incident.root_cause
    found = client.query(
        "WITH alike AS (SELECT incident_id, last_seen, shared, score FROM ("
        " SELECT incident_id, last_seen, cluster = {cluster:String} AS is_here,"
        " is_here AND root_node = {node:String} AND root_node != '' AS is_node,"
        " is_here AND hasAny(jobs, {jobs:Array(String)}) AS is_job,"
        " arrayFilter(x -> x != '', ["
        "  if(root_class = {class:String}, 'class', ''),"
        "  if(is_node, 'node', ''),"
        "  if(is_node AND root_gpu = {gpu:String} AND root_gpu != '', 'GPU', ''),"
        "  if(is_job, 'job', '')]) AS shared,"
        " arraySum(x -> transform(x, ['class', 'node', 'GPU', 'job'], [4, 3, 2, 1], 0), shared) AS score"
        " FROM incidents FINAL WHERE merged_into = '' AND incident_id != {id:String}"
        "  AND (root_class = {class:String} OR is_node OR is_job))"
        " ORDER BY score DESC, last_seen DESC, incident_id LIMIT {limit:UInt32})"
        " SELECT incident_id, document, shared, verdicts FROM alike"
        " INNER JOIN (SELECT incident_id, document FROM incidents FINAL"
        "  WHERE incident_id IN (SELECT incident_id FROM alike)) AS documents USING incident_id"
        " LEFT JOIN (SELECT incident_id, groupArray(verdict) AS verdicts FROM feedback FINAL GROUP BY incident_id)"
        " AS verdicts_now USING incident_id ORDER BY score DESC, last_seen DESC, incident_id",
        {
            "class": root.failure_class,
            "cluster": incident.cluster,
            "node": root.node,
            "gpu": root.gpu,
            "jobs": list(incident.jobs),
            "id": incident.incident_id,
            "limit": limit,
        },
    )
    return [
        Similar(_stored(incident_id, text), tuple(shared), tuple(verdicts))
        for incident_id, text, shared, verdicts in found
    ]


def incident_changes(client: Client, incident_id: str) -> list[dict[str, Any]]:
    """Revisions that changed status, class, severity or confidence, oldest first; at most the newest 2,000 are read."""
    found = client.query(
        "SELECT revision, status, class, severity, confidence, toUnixTimestamp64Nano(last_seen), signal_count"
        " FROM incident_revisions FINAL WHERE incident_id = {id:String} ORDER BY revision DESC LIMIT {limit:UInt32}",
        {"id": incident_id, "limit": MAX_REVISIONS},
    )
    names = ("revision", "status", "class", "severity", "confidence", "last_seen_ns", "signal_count")
    changes: list[dict[str, Any]] = []
    for row in reversed(found):
        if not changes or tuple(changes[-1][name] for name in names[1:5]) != row[1:5]:
            changes.append(dict(zip(names, row, strict=True)))
    return changes


def incident_deliveries(client: Client, incident_id: str, limit: int = 500) -> list[dict[str, Any]]:
    """Notification decisions about the incident, oldest first; the newest `limit`."""
    found = client.query(
        "SELECT target, outcome, kind, reason, toUnixTimestamp64Nano(decided) FROM deliveries FINAL"
        " WHERE incident_id = {id:String} ORDER BY decided DESC, target DESC LIMIT {limit:UInt32}",
        {"id": incident_id, "limit": limit},
    )
    names = ("target", "outcome", "kind", "reason", "decided_ns")
    return [dict(zip(names, row, strict=True)) for row in reversed(found)]


def incident_ranks(client: Client, incident_id: str, limit: int = 200) -> tuple[list[dict[str, Any]], int]:
    """The first signal of each rank, by onset; and the total number of ranks with signals."""
    names = ("job", "rank", "node", "gpu", "onset_ns", "event_time_ns", "signals", "classes", "text")
    found = client.query(
        "SELECT job, rank, argMin(node, onset), max(gpu), toUnixTimestamp64Nano(min(onset)),"
        " toUnixTimestamp64Nano(argMin(event_time, onset)), count(), arraySort(groupUniqArray(6)(class)),"
        " argMin(text, onset), count() OVER () FROM signals FINAL WHERE incident_id = {id:String} AND rank IS NOT NULL"
        " GROUP BY job, rank ORDER BY min(onset), job, rank LIMIT {limit:UInt32}",
        {"id": incident_id, "limit": limit},
    )
    return [dict(zip(names, row[:-1], strict=True)) for row in found], int(found[0][-1]) if found else 0


def _stored(incident_id: str, text: str) -> Incident:
    return decode_incident(text, f"stored incident {incident_id}")
