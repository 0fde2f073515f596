"""Lines by position, signals by id, and the first signal of each rank, from the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from epicenter.sinks.clickhouse.client import Client

MAX_LINES: Final = 801
MAX_GROUPS: Final = 400
AROUND_S: Final = 600
"""Neighbouring raw lines of a partition are at most this far apart; limits how much is read."""

_LINE: Final = ("number", "event_time_ns", "cluster", "node", "job", "rank", "class", "rule", "text")
_SIGNAL: Final = (
    *("signal_id", "incident_id", "event_time_ns", "onset_ns", "rule", "class", "severity", "role", "cluster"),
    *("source", "node", "job", "rank", "gpu", "text"),
)
_GROUP: Final = ("job", "class", "ranks", "nodes", "first_ns", "last_ns", "node", "text", "signal_id", "event_time_ns")


def matched_lines(client: Client, source: str, first: int, last: int) -> list[dict[str, Any]]:
    """The matched lines of a file or partition from `first` to `last`, both included."""
    found = client.query(
        "SELECT position_offset, toUnixTimestamp64Nano(event_time), cluster, node, job, rank, class, rule, text"
        " FROM matches WHERE position_source = {source:String} AND position_offset BETWEEN {first:Int64} AND"
        " {last:Int64} ORDER BY position_offset, rule LIMIT 1 BY position_offset LIMIT {limit:UInt32}",
        {"source": source, "first": first, "last": last, "limit": MAX_LINES},
    )
    return [dict(zip(_LINE, row, strict=True)) for row in found]


def raw_lines(
    client: Client, topic: str, partition: int, first: int, last: int, around_ns: int
) -> list[tuple[int, str]]:
    """Offset and text of stored raw records of a partition near a time; empty without raw logs."""
    tables = "SELECT count() FROM system.tables WHERE database = {database:String} AND name = 'otel_logs'"
    if client.query(tables, {"database": client.database})[0][0] == 0:
        return []
    return client.query(
        "SELECT toInt64OrZero(LogAttributes['kafka.offset']) AS offset, Body FROM otel_logs"
        " WHERE Timestamp >= fromUnixTimestamp64Nano({around:Int64}) - toIntervalSecond({apart:UInt32})"
        " AND Timestamp <= fromUnixTimestamp64Nano({around:Int64}) + toIntervalSecond({apart:UInt32})"
        " AND LogAttributes['kafka.topic'] = {topic:String} AND LogAttributes['kafka.partition'] = {partition:String}"
        " AND offset BETWEEN {first:Int64} AND {last:Int64} ORDER BY offset LIMIT 1 BY offset LIMIT {limit:UInt32}",
        {
            "around": around_ns,
            "apart": AROUND_S,
            "topic": topic,
            "partition": str(partition),
            "first": first,
            "last": last,
            "limit": MAX_LINES,
        },
    )


def get_signal(client: Client, signal_id: str) -> dict[str, Any] | None:
    """A signal with the position of its line; `position_source` is empty for a liveness verdict. None if unknown."""
    found = client.query(
        "SELECT signal_id, incident_id, toUnixTimestamp64Nano(event_time), toUnixTimestamp64Nano(onset), rule, class,"
        " severity, role, cluster, source, node, job, rank, gpu, text FROM signals WHERE signal_id = {id:String}"
        " ORDER BY event_time LIMIT 1",
        {"id": signal_id},
    )
    if not found:
        return None
    signal = dict(zip(_SIGNAL, found[0], strict=True))
    source, number = _positions(client, [(signal_id, signal["event_time_ns"])]).get(signal_id, ("", 0))
    return {**signal, "position_source": source, "position_offset": number}


def first_signals(client: Client, incident_id: str) -> list[dict[str, Any]]:
    """Ranks grouped by job and class of their first signal, the earliest group first.

    `first_ns` and `last_ns` are the earliest and latest onset; the other fields are those of the earliest signal.
    `position_source` and `position_offset` locate its line, if it has one.
    """
    found = client.query(
        "SELECT job, first.1 AS class, groupArray(rank) AS ranks, uniqExactIf(node, node != ''), min(onset_ns) AS"
        " earliest, max(onset_ns), argMin(node, (onset_ns, rank)), argMin(first.2, (onset_ns, rank)),"
        " argMin(first.3, (onset_ns, rank)), argMin(first.4, (onset_ns, rank)) FROM ("
        " SELECT job, assumeNotNull(signals.rank) AS rank, toUnixTimestamp64Nano(min(onset)) AS onset_ns,"
        "  argMin(node, (onset, signal_id)) AS node,"
        "  argMin((class, text, signal_id, toUnixTimestamp64Nano(event_time)), (onset, signal_id)) AS first"
        " FROM signals FINAL WHERE incident_id = {id:String} AND signals.rank IS NOT NULL"
        " GROUP BY job, signals.rank)"
        " GROUP BY job, class ORDER BY earliest, job, class LIMIT {limit:UInt32}",
        {"id": incident_id, "limit": MAX_GROUPS},
    )
    groups = [dict(zip(_GROUP, row, strict=True)) for row in found]
    places = _positions(client, [(group["signal_id"], group["event_time_ns"]) for group in groups])
    for group in groups:
        group["ranks"] = sorted(group["ranks"])
        group["position_source"], group["position_offset"] = places.get(group["signal_id"], ("", 0))
    return groups


def _positions(client: Client, signals: Sequence[tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """The position of each signal's line, by signal id."""
    if not signals:
        return {}
    found = client.query(
        "SELECT match_id, position_source, position_offset FROM matches WHERE match_id IN {ids:Array(String)}"
        " AND event_time BETWEEN fromUnixTimestamp64Nano({first:Int64}) AND fromUnixTimestamp64Nano({last:Int64})"
        " ORDER BY position_source, position_offset LIMIT 1 BY match_id",
        {
            "ids": [signal_id for signal_id, _ in signals],
            "first": min(time_ns for _, time_ns in signals),
            "last": max(time_ns for _, time_ns in signals),
        },
    )
    return {match_id: (source, number) for match_id, source, number in found}
