"""What the store knows about one node: its jobs, its kernel matches and how often it failed."""

from __future__ import annotations

from typing import Final

import msgspec

from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.client import Client

RECENT_NS: Final = 30 * 86_400 * NS_PER_S
MAX_CLASSES: Final = 50
MAX_JOBS: Final = 50
_WITHIN: Final = " AND ({cluster:String} = '' OR cluster = {cluster:String})"


class NodeJob(msgspec.Struct, frozen=True):
    """A job that ran on the node, from its first to its last line there; `step` is its last one, None if unknown."""

    cluster: str
    job: str
    first_ns: int
    last_ns: int
    step: int | None


class NodeMatches(msgspec.Struct, frozen=True):
    """Kernel lines of one class, with the newest one."""

    failure_class: str
    severity: str
    count: int
    newest_ns: int
    text: str


class NodeCounts(msgspec.Struct, frozen=True):
    """Incidents that reached the node; `began_here` are those with their root cause on it."""

    total: int
    open: int
    recent: int
    began_here: int


def node_counts(client: Client, node: str, cluster: str, now_ns: int) -> NodeCounts:
    """The incidents of a node, of one cluster or of all; recent ones began in the 30 days before now."""
    found = client.query(
        "SELECT count(), countIf(status = 'open'), countIf(toUnixTimestamp64Nano(first_seen) >= {since:Int64}),"
        " countIf(toUnixTimestamp64Nano(first_seen) >= {since:Int64} AND root_node = {node:String})"
        f" FROM incidents FINAL WHERE merged_into = '' AND (has(nodes, {{node:String}}) OR root_node = {{node:String}})"
        f"{_WITHIN}",
        {"node": node, "cluster": cluster, "since": now_ns - RECENT_NS},
    )
    return NodeCounts(*found[0])


def node_jobs(client: Client, node: str, cluster: str) -> list[NodeJob]:
    """Jobs that ran on a node, the newest first; and its own lines under an empty name."""
    found = client.query(
        "SELECT cluster, job, toUnixTimestamp64Nano(min(first_event_time)), toUnixTimestamp64Nano(max(last_event_time))"
        " AS last_ns, max(last_step) FROM liveness WHERE node = {node:String}"
        f"{_WITHIN} GROUP BY cluster, job ORDER BY last_ns DESC, job LIMIT {{most:UInt32}}",
        {"node": node, "cluster": cluster, "most": MAX_JOBS},
    )
    return [NodeJob(*row) for row in found]


def node_matches(client: Client, node: str, cluster: str) -> list[NodeMatches]:
    """Kernel matches of a node by class, in the 30 days up to its newest one; the newest class first."""
    kernel = f"node = {{node:String}} AND source = 'kernel'{_WITHIN}"
    found = client.query(
        "SELECT class, argMax(severity, event_time), uniqExact(match_id), toUnixTimestamp64Nano(max(event_time))"
        f" AS newest_ns, argMax(text, event_time) FROM matches WHERE {kernel} AND event_time >="
        f" (SELECT max(event_time) FROM matches WHERE {kernel}) - toIntervalDay(30)"
        " GROUP BY class ORDER BY newest_ns DESC, class LIMIT {most:UInt32}",
        {"node": node, "cluster": cluster, "most": MAX_CLASSES},
    )
    return [NodeMatches(*row) for row in found]
