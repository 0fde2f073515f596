"""The correlator's state after kill -9, restarts, an overwritten snapshot, and recreated topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from time import time_ns

import msgspec
import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from epicenter.rules.model.incident import Incident, Resolution
from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.stream.kafka.messages import ProgressTick, decode
from epicenter.stream.kafka.scan_messages import match_partition
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.services.matcher import TICK_S
from tests.support.cluster import Cluster, Worker, everything_in, with_admin
from tests.support.waiting import eventually
from tests.unit.sinks.clickhouse.test_rows import an_incident

pytestmark = pytest.mark.integration

PARTITIONS = 4
MINE = match_partition("default", PARTITIONS)
XID = "kernel: [   12.000001] NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off the bus."
TIMEOUT = (
    "[rank7]:[E ProcessGroupNCCL.cpp:683] [Rank 7] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4120, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
)

STORED = "SELECT class, nodes, signal_count FROM incidents FINAL"
STEP = "completed step: {}, seconds: 2.0, TFLOP/s/device: 380.1, loss: 2.8"
STEPS = 1907
"""More than an hour of them, up to a number that is not round: then a stall is reported within 20 s."""


@pytest.fixture
def make_cluster(clusters: Callable[..., Cluster]) -> Callable[..., Cluster]:
    def make(**settings: str) -> Cluster:
        cluster = clusters(**settings)
        cluster.run("migrate")
        return cluster

    return make


def kernel(second: float, node: str = "n1", begin_ns: int = 1_772_442_000 * NS_PER_S) -> tuple[str, bytes]:
    return node, f"{iso_from_ns(begin_ns + round(second * NS_PER_S))} {node} {XID}".encode()


def worker_line(second: float, text: str, begin_ns: int = 1_772_442_000 * NS_PER_S) -> tuple[str, bytes]:
    time = begin_ns / NS_PER_S + second
    fields = {"timestamp": time, "host": "n1", "job_id": "A", "rank": 7, "source": "worker", "message": text}
    return "n1", msgspec.json.encode(fields)


def committed(cluster: Cluster) -> int:
    names, mine = TopicNames(cluster.name), TopicPartition(TopicNames(cluster.name).matches, MINE)
    found = with_admin(
        cluster.bootstrap, lambda admin: admin.list_consumer_group_offsets(names.correlate_group, partitions=[mine])
    )
    return int(found[mine].offset) if mine in found else -1


def sent_incidents(cluster: Cluster) -> list[Incident]:
    topic = TopicNames(cluster.name).incidents
    records = everything_in(cluster.bootstrap, *(TopicPartition(topic, number) for number in range(PARTITIONS)))
    return [msgspec.json.decode(record.value or b"", type=Incident) for record in records]


def stored(cluster: Cluster) -> list[tuple[str, list[str], int]]:
    """Class, nodes and number of signals of the incidents in the store."""
    client = connect(cluster.store)
    try:
        return [(name, list(nodes), int(count)) for name, nodes, count in client.query(STORED)]
    finally:
        client.close()


def statuses(cluster: Cluster) -> dict[str, str]:
    client = connect(cluster.store)
    try:
        return dict(client.query("SELECT nodes[1], status FROM incidents FINAL"))
    finally:
        client.close()


def is_stored(cluster: Cluster, failure_class: str, *nodes: str) -> bool:
    return (failure_class, list(nodes)) in [incident[:2] for incident in stored(cluster)]


def stop(worker: Worker) -> None:
    worker.process.terminate()
    assert worker.process.wait(30) == 0, worker.log.read_text()


def test_a_standby_takes_over_and_the_watermark_advances(make_cluster: Callable[..., Cluster]) -> None:
    """A job stalls and the worker that watches it is killed: the other worker reports the hang and later failures."""
    cluster = make_cluster(ADVANCE_WHEN_IDLE="true")
    workers = [cluster.start_worker(), cluster.start_worker()]
    eventually(
        lambda: [worker.metric("epicenter_partitions") for worker in workers] == [2, 2], 60, "two partitions each"
    )
    now_ns = time_ns()
    settled_ms = now_ns // 1_000_000
    cluster.feed(worker_line(2.0 * (step - STEPS) - 100, STEP.format(step), now_ns) for step in range(1, STEPS + 1))
    cluster.feed([kernel(0, "n2", now_ns)])
    eventually(lambda: is_stored(cluster, "xid-79", "n2"), 30, "the first incident")

    active = next(worker for worker in workers if "epicenter_signals{" in worker.get("/metrics"))
    standby = workers[1 - workers.index(active)]
    active.kill()
    killed_ms = time_ns() // 1_000_000
    cluster.feed([kernel(20, "n3", now_ns)])
    eventually(lambda: is_stored(cluster, "xid-79", "n3"), 30, "an incident from the standby")
    eventually(lambda: is_stored(cluster, "hang"), 60, "the hang, reported by the standby")
    assert standby.process.poll() is None

    records = everything_in(cluster.bootstrap, TopicPartition(TopicNames(cluster.name).matches, MINE))
    ticks_ms = [record.timestamp for record in records if isinstance(decode(record.value or b""), ProgressTick)]
    assert ticks_ms[-1] > killed_ms
    gaps_ms = [
        later - earlier for earlier, later in pairwise(tick_ms for tick_ms in ticks_ms if tick_ms > settled_ms + 1000)
    ]
    assert min(gaps_ms) > 900 * TICK_S, "two workers tick"
    by_revision: dict[tuple[str, int], set[bytes]] = {}
    for incident in sent_incidents(cluster):
        by_revision.setdefault((incident.incident_id, incident.revision), set()).add(msgspec.json.encode(incident))
    assert {len(contents) for contents in by_revision.values()} == {1}


def test_a_clean_restart_repeats_nothing_and_an_older_snapshot_loses_nothing(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster()
    names = TopicNames(cluster.name)
    snapshots = TopicPartition(names.snapshots, MINE)

    def signals() -> int:
        return sum(count for *_, count in stored(cluster))

    worker = cluster.start_worker()
    cluster.feed([worker_line(0, "starting"), kernel(60)])
    eventually(lambda: signals() == 1, 60, "the first signal")
    stop(worker)
    early = everything_in(cluster.bootstrap, snapshots)[-1]
    sent = len(sent_incidents(cluster))
    messages = everything_in(cluster.bootstrap, TopicPartition(names.matches, MINE))
    after = [decode(message.value) for message in messages if message.offset >= committed(cluster)]
    assert not any(message.has_content for message in after), "messages of the stopping matcher are empty"

    worker = cluster.start_worker()
    cluster.feed([worker_line(661, TIMEOUT)])
    eventually(lambda: signals() == 2, 60, "the second signal")
    stop(worker)
    assert len(sent_incidents(cluster)) == sent + 1
    assert everything_in(cluster.bootstrap, snapshots)[-1].offset > early.offset

    async def write_again() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap)
        await producer.start()
        await producer.send_and_wait(names.snapshots, early.value, key=early.key, partition=MINE)
        await producer.stop()

    asyncio.run(write_again())  # like a worker that was removed from its group and resumes
    worker = cluster.start_worker()
    cluster.feed([worker_line(662, TIMEOUT)])
    eventually(lambda: signals() == 3, 60, "the second signal again, and the third")
    stop(worker)
    assert {incident.revision: incident.signal_count for incident in sent_incidents(cluster)} == {1: 1, 2: 2, 3: 3}

    with_admin(cluster.bootstrap, lambda admin: admin.delete_topics([names.matches]))
    eventually(lambda: "created" in cluster.run("topics"), 30, "the topic of matches made again")
    worker = cluster.start_worker()
    cluster.feed([kernel(700, "n9")])
    eventually(lambda: is_stored(cluster, "xid-79", "n9"), 60, "an incident from the new topic")
    stop(worker)
    assert "topic-made-again" in worker.log.read_text()


def test_a_snapshot_that_is_too_large_is_reported_and_written_once_it_fits(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster(SNAPSHOT_EVERY="1s")
    topic = TopicNames(cluster.name).snapshots

    def limit(size_bytes: int) -> None:
        config = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": str(size_bytes)})
        with_admin(cluster.bootstrap, lambda admin: admin.alter_configs([config]))

    limit(100)
    worker = cluster.start_worker()
    cluster.feed([kernel(60)])
    eventually(lambda: worker.metric("epicenter_snapshot_failures_total"), 60, "a snapshot that is refused")
    eventually(lambda: is_stored(cluster, "xid-79", "n1"), 60, "the incident without a snapshot")
    assert f"exceeds the limit of {topic}: raise its max.message.bytes" in worker.log.read_text()
    assert committed(cluster) == -1

    limit(1 << 20)
    cluster.feed([kernel(70, "n2")])
    eventually(lambda: committed(cluster) > 0, 30, "a snapshot that fits")
    stop(worker)


def test_an_open_incident_ends_once_after_all_data_of_kafka_were_lost(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    names = TopicNames(cluster.name)
    worker = cluster.start_worker()
    cluster.feed([worker_line(0, "starting"), kernel(60)])
    eventually(lambda: is_stored(cluster, "xid-79", "n1"), 60, "the incident")
    stop(worker)

    client = connect(cluster.store)
    ClickHouseSink(client, writer="another").write(
        incidents=[msgspec.structs.replace(an_incident("other"), cluster="default")]
    )
    client.close()
    topics = [names.matches, names.signals, names.incidents, names.snapshots, cluster.raw_topic]
    with_admin(cluster.bootstrap, lambda admin: admin.delete_topics(topics))
    eventually(lambda: cluster.run("topics").count("created") == len(topics), 60, "the topics made again")
    worker = cluster.start_worker()
    cluster.feed([kernel(120, "n9")])
    eventually(lambda: statuses(cluster)["n1"] == "resolved", 60, "the end of the lost incident")
    stop(worker)
    assert "unconfirmed_incidents_ended" in worker.log.read_text()

    worker = cluster.start_worker()
    cluster.feed([kernel(180, "n8")])
    eventually(lambda: is_stored(cluster, "xid-79", "n8"), 60, "a later incident")
    stop(worker)
    ends = [incident for incident in sent_incidents(cluster) if incident.resolved_by == Resolution.STATE_LOST]
    assert [incident.nodes for incident in ends] == [("n1",)]
    assert statuses(cluster)[an_incident().nodes[0]] == "open"
