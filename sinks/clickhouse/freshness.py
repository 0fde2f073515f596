"""How new the store's newest line is, and which clusters it knows."""

from __future__ import annotations

import msgspec

from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.jobs import CLOCK_AHEAD_S


class StoreState(msgspec.Struct, frozen=True):
    """The event time of the newest line, None if no line is stored; and the clusters, by name."""

    newest_ns: int | None = None
    clusters: tuple[str, ...] = ()


def store_state(client: Client) -> StoreState:
    """The state of the store. Lines further ahead of the store's clock than `CLOCK_AHEAD_S` don't count."""
    found = client.query(
        "WITH toDateTime64(now() + {ahead:UInt32}, 9, 'UTC') AS latest SELECT toUnixTimestamp64Nano(max(newest)),"
        " arraySort(groupUniqArray(cluster)) FROM ("
        " SELECT cluster, maxIf(last_event_time, last_event_time <= latest) AS newest FROM liveness"
        "  WHERE minute >= (SELECT max(minute) FROM liveness WHERE minute <= latest) - 86400 GROUP BY cluster"
        " UNION ALL SELECT cluster, maxIf(last_seen, last_seen <= latest) FROM incidents GROUP BY cluster)",
        {"ahead": CLOCK_AHEAD_S},
    )
    newest_ns, clusters = found[0]
    return StoreState(int(newest_ns) if newest_ns > 0 else None, tuple(clusters))
