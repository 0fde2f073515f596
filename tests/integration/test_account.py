"""Every raw record is accounted for once, through blocks that wait, rebalances, a freeze and a stop."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.test_raw_faults import balanced, members, xid
from tests.support.cluster import Cluster, Worker
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

TRACEBACK = (b"Traceback (most recent call last):", b'  File "train.py", line 7, in <module>', b"RuntimeError: gone")
DEAD = (b"", b'{"message": "cut', b'{"message": null, "host": "n1"}')


def mixed_records(rounds: int) -> list[tuple[str, bytes]]:
    """For each of five nodes: quiet lines, a block, a failure, invalid records, a line in an envelope."""
    values = (b"quiet", *TRACEBACK, b"\xff\xfe\0", *DEAD, b'{"message": "quiet", "host": "n1"}', xid(1), b"[1, 2]")
    return [(f"n{number % 5}", value) for number in range(rounds) for value in values]


def test_each_record_is_counted_once(kafka: Any, clickhouse: Any, make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, FETCH_RECORDS="40")
    mix = mixed_records(250)
    workers = [cluster.start_worker()]
    cluster.feed(mix)
    eventually(lambda: workers[0].metric("epicenter_records_total") > 0, 60, "the beginning")
    workers.append(cluster.start_worker())
    eventually(lambda: workers[1].metric("epicenter_partitions") == 2, 60, "two partitions each")
    cluster.feed(mix)
    with workers[1].frozen():
        eventually(lambda: members(cluster) == 1, 30, "the broker removes the frozen worker")
    eventually(lambda: members(cluster) == 2, 30, "it is back")
    cluster.feed(mix)
    settled(cluster, workers, 3 * len(mix))

    counted = total(workers)
    assert counted["epicenter_records_total"] == 3 * len(mix)
    assert counted["epicenter_dead_letters_total"] == 3 * 250 * len(DEAD)
    before = sum(balanced(workers[0]).values())
    workers[1].process.send_signal(signal.SIGTERM)
    workers[1].process.wait(20)
    eventually(lambda: workers[0].metric("epicenter_partitions") == 4, 30, "all partitions")
    cluster.feed(mix)
    settled(cluster, workers[:1], int(before) + len(mix))
    eventually(lambda: len(listed(cluster)) >= 4 * 250 * len(DEAD), 30, "the store has all dead letters")
    dead_letters = listed(cluster)
    assert len(dead_letters) == 4 * 250 * len(DEAD)


def total(workers: list[Worker]) -> Counter[str]:
    found: Counter[str] = Counter()
    for worker in workers:
        balanced(worker)
        for line in worker.get("/metrics").splitlines():
            if line.startswith("epicenter_") and "{source=" in line:
                found[line.partition("{")[0]] += int(float(line.rpartition(" ")[2]))
    return found


def lags(workers: list[Worker]) -> list[float]:
    """The lag of each partition, as its worker reports it."""
    lines = [line for worker in workers for line in worker.get("/metrics").splitlines() if "_lag_records{" in line]
    return [float(line.rpartition(" ")[2]) for line in lines]


def listed(cluster: Cluster) -> list[str]:
    return cluster.run("dead-letters", "list", "--json", "--limit", "10000").splitlines()


def settled(cluster: Cluster, workers: list[Worker], records: int) -> None:
    eventually(lambda: total(workers)["epicenter_records_total"] >= records, 90, f"{records} records")
    eventually(lambda: lags(workers) == [0] * 4, 30, "no lag")
    assert total(workers)["epicenter_records_total"] == records
