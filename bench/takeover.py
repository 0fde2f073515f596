"""Seconds until a standby worker takes over after `kill -9` of the active one, at defaults: `make bench-takeover`.

Every 200 ms a line about another node is written. The worker that correlates is killed; measured is the time until the
groups commit beyond their last offsets, and until the store has an incident of a line written after the kill; for
comparison, how long such a line takes without a kill.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep, time_ns

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from deploy.dev.broker import dev_broker
from deploy.dev.clickhouse import dev_clickhouse
from epicenter.rules.model.times import iso_from_ns
from epicenter.sinks.clickhouse.client import connect
from epicenter.stream.kafka.scan_messages import match_partition
from epicenter.stream.kafka.topics import TopicNames
from tests.support.cluster import Cluster, Worker
from tests.support.waiting import eventually

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 5))
EVERY_S = 0.2
PATIENCE_S = 60
SETTLES_S = 0.5
"""A commit in flight arrives within this time, and no standby takes over so soon."""

XID = "kernel: [ 12.000001] NVRM: Xid (PCI:0000:9a:00): 79, pid=8129, name=python3, GPU has fallen off the bus."


class Feed:
    """Writes lines one by one, and records the time of each."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._stopped = threading.Event()
        self.written_s: list[float] = []

    def run(self) -> None:
        """Write until stopped."""
        asyncio.run(self._run())

    def stop(self) -> None:
        """Stop writing."""
        self._stopped.set()

    async def _run(self) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self._cluster.bootstrap, acks="all")
        await producer.start()
        while not self._stopped.is_set():
            node = f"n{len(self.written_s):05d}"
            line = f"{iso_from_ns(time_ns())} {node} {XID}"
            await producer.send_and_wait(self._cluster.raw_topic, line.encode(), key=node.encode())
            self.written_s.append(monotonic())
            await asyncio.sleep(EVERY_S)
        await producer.stop()


@contextmanager
def feeding(cluster: Cluster) -> Iterator[Feed]:
    """A feed in a separate thread."""
    feed = Feed(cluster)
    thread = threading.Thread(target=feed.run)
    thread.start()
    try:
        yield feed
    finally:
        feed.stop()
        thread.join()


def newest_stored(cluster: Cluster) -> int:
    """The number of the newest line with an incident in the store."""
    client = connect(cluster.store)
    try:
        ((newest,),) = client.query("SELECT max(arrayMax(nodes)) FROM incidents")
    finally:
        client.close()
    return int(str(newest)[1:] or -1)


def committed(cluster: Cluster, group: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The committed offsets of a group."""

    async def offsets() -> dict[TopicPartition, int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            found = await admin.list_consumer_group_offsets(group, partitions=list(partitions))
            return {partition: committed_at.offset for partition, committed_at in found.items()}
        finally:
            await admin.close()

    return asyncio.run(offsets())


def is_correlating(worker: Worker) -> bool:
    """Whether it reports signals: all nodes are of one cluster, so one worker does."""
    return "epicenter_signals{" in worker.get("/metrics")


def takeover(cluster: Cluster, feed: Feed, active: Worker) -> dict[str, float]:
    """Kill the worker; seconds until the others have taken over each part of its work."""
    names = TopicNames(cluster.name)
    scanned = [TopicPartition(cluster.raw_topic, number) for number in range(4)]
    matches = [TopicPartition(names.matches, match_partition("default", 4))]
    groups = {"scan": (names.match_group, scanned), "correlate": (names.correlate_group, matches)}
    active.kill()
    killed_s, first = monotonic(), len(feed.written_s)
    sleep(SETTLES_S)
    before = {part: committed(cluster, *group) for part, group in groups.items()}
    found: dict[str, float] = {}
    while len(found) < 3:
        for part in groups.keys() - found.keys():
            now = committed(cluster, *groups[part])
            if all(now[partition] > offset for partition, offset in before[part].items()):
                found[part] = monotonic() - killed_s
        if "incident" not in found and newest_stored(cluster) >= first:
            found["incident"] = monotonic() - killed_s
        if monotonic() - killed_s > PATIENCE_S:
            raise SystemExit(f"not within {PATIENCE_S} s: only {found}")
        sleep(0.05)
    return found


def undisturbed(cluster: Cluster, feed: Feed) -> float:
    """Seconds from the writing of a line to its incident in the store."""
    number = len(feed.written_s)
    eventually(lambda: len(feed.written_s) > number, 10, "a line")
    eventually(lambda: newest_stored(cluster) >= number, 60, "its incident")
    return monotonic() - feed.written_s[number]


def main() -> None:
    """Kill in several rounds; a table for people on standard error, JSON on standard output."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="epicenter-takeover-") as name:
        folder = Path(name)
        with dev_broker(folder / "kafka") as broker, dev_clickhouse(folder / "store") as store:
            cluster = Cluster(broker.bootstrap, store.dsn, folder, ALLOWED_LATENESS="5s", ADVANCE_WHEN_IDLE="true")
            workers = [cluster.start_worker(), cluster.start_worker()]
            try:
                with feeding(cluster) as feed:
                    for _ in range(ROUNDS):
                        active = eventually(lambda: next(filter(is_correlating, workers), None), 60, "a correlation")
                        calm_s = undisturbed(cluster, feed)
                        rows.append({"undisturbed": calm_s, **takeover(cluster, feed, active)})
                        print(rows[-1], file=sys.stderr, flush=True)
                        workers.remove(active)
                        workers.append(cluster.start_worker())
                        eventually(lambda: workers[-1].get("/healthz"), 60, "another worker")
            finally:
                cluster.stop()
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
