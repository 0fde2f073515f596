"""A worker that is behind matches the critical rules first, and everything in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sinks.clickhouse.client import connect
from tests.support.cluster import Cluster, brief, records_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

LOGS = ("kern.log", "worker.jsonl", "kubernetes-events.jsonl")
SCENARIO = brief("gpu-off-bus", nodes=4, after_fault_s=700.0)


def rows(cluster: Cluster) -> list[tuple[Any, ...]]:
    client = connect(cluster.store)
    try:
        return client.query("SELECT match_id, rule, node FROM matches FINAL ORDER BY match_id")
    finally:
        client.close()


def opened(cluster: Cluster) -> list[tuple[str, str]]:
    return [(one["incident_id"], one["class"]) for one in cluster.incidents()]


def test_what_is_put_off_is_done_later_and_nothing_is_missing(clusters: Callable[..., Cluster]) -> None:
    calm = clusters()
    count = calm.feed([*records_of(SCENARIO, *LOGS), ("n1", b'{"message": "cut of')])
    calm_worker = calm.start_worker()
    eventually(lambda: calm_worker.metric("epicenter_records_total") == count, 60, "all records at once")
    eventually(calm.incidents, 60, "the calm run's incident")
    matches = calm_worker.metric("epicenter_matches_total")
    wanted = eventually(lambda: found if len(found := rows(calm)) == matches else None, 60, "the calm run's rows")

    behind = clusters(share_raw=calm, BEHIND_AFTER="0s", FETCH_RECORDS="20")
    worker = behind.start_worker()
    eventually(lambda: worker.metric("epicenter_records_total") == count, 60, "all rules for all records")
    put_off = worker.metric("epicenter_put_off_records_total")
    assert count // 2 < put_off == worker.metric("epicenter_done_later_records_total")
    eventually(lambda: rows(behind) == wanted, 60, "the same rows")

    names = ("records", "matched_records", "quiet_records", "dead_letters")
    counted = [worker.metric(f"epicenter_{name}_total") for name in names]
    assert counted == [calm_worker.metric(f"epicenter_{name}_total") for name in names]
    eventually(lambda: opened(behind) == opened(calm), 60, "the same incidents")
