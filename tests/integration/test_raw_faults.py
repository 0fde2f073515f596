"""Faults of the raw topic and its consumer group: each is named, counted and survived."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import InvalidTimestampError, KafkaError

from deploy.dev.broker import JavaBroker, own_broker
from epicenter.stream.kafka.raw_batches import RawBatches
from tests.support.cluster import Cluster, Worker, with_admin
from tests.support.corruption import Broken, broken_checksum, broken_payload, corrupt_on_disk
from tests.support.logs import vector
from tests.support.waiting import POLL_S, eventually

pytestmark = pytest.mark.integration

MakeCluster = Callable[..., Cluster]
XID = (
    "2026-03-02T{:02}:00:01.500000+00:00 n{} kernel: [   12.000001] NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off"
)


def xid(number: int) -> bytes:
    """A failure of node `number`, two hours after that of the node before."""
    return XID.format(2 * number, number).encode()


def nodes(cluster: Cluster) -> set[str]:
    return {node for incident in cluster.incidents() for node in incident["nodes"]}


def fault_log(worker: Worker, kind: str) -> float:
    return worker.metric(f'epicenter_kafka_faults_total{{kind="{kind}"}}')


def has_read_all(worker: Worker, cluster: Cluster, records: int) -> None:
    eventually(lambda: worker.metric("epicenter_records_total") >= records, 60, f"{records} records")
    lag = f'epicenter_lag_records{{source="{cluster.raw_topic}/0"}}'
    eventually(lambda: lag in worker.get("/metrics") and worker.metric("epicenter_lag_records") == 0, 30, "no lag")
    assert sum(balanced(worker).values()) == records


def balanced(worker: Worker) -> dict[str, float]:
    """Records in = matched + quiet + dead, for each partition: the records by source."""
    lines = [
        line for line in worker.get("/metrics").splitlines() if line.startswith("epicenter_") and "source=" in line
    ]
    value = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
    found = {name: records for name, records in value.items() if name.startswith("epicenter_records_total{")}
    for name, records in found.items():
        kinds = ("matched_records", "quiet_records", "dead_letters")
        assert records == sum(value[name.replace("_records_total", f"_{kind}_total")] for kind in kinds), name
    return found


def assert_logged_once(worker: Worker, kind: str) -> None:
    lines = [line for line in worker.log.read_text().splitlines() if "kafka_fault " in line and kind in line]
    assert len(lines) == 1, worker.log.read_text()


@pytest.mark.long
def test_partitions_added_at_run_time_are_read(kafka: Any, clickhouse: Any, make_cluster: MakeCluster) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    worker = cluster.start_worker()
    cluster.feed([("n1", xid(1))])
    has_read_all(worker, cluster, 1)
    with_admin(kafka.bootstrap, lambda admin: admin.create_partitions({cluster.raw_topic: NewPartitions(3)}))
    asyncio.run(feed(cluster, [(2, xid(2)), (1, xid(3))]))
    eventually(lambda: worker.metric("epicenter_partitions") == 3, 30, "three partitions")
    has_read_all(worker, cluster, 3)
    eventually(lambda: nodes(cluster) == {"n1", "n2", "n3"}, 60, "the failures in the new partitions")
    assert f'epicenter_lag_records{{source="{cluster.raw_topic}/2"}} 0' in worker.get("/metrics")
    assert fault_log(worker, "partitions-added") == 1
    assert_logged_once(worker, "partitions-added")


def test_a_recreated_topic_is_read_from_its_start(kafka: Any, clickhouse: Any, make_cluster: MakeCluster) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    worker = cluster.start_worker()
    cluster.feed([("n1", xid(1)), ("n1", b""), ("n1", b"quiet")])
    has_read_all(worker, cluster, 3)
    recreate(cluster)
    cluster.feed([("n2", xid(2)), ("n2", b'{"message": "cut'), *[("n2", b"quiet")] * 4])
    eventually(lambda: nodes(cluster) == {"n1", "n2"}, 60, "the failure at the head of the new topic")
    eventually(lambda: worker.metric("epicenter_records_total") >= 9, 60, "all records")
    balanced(worker)
    assert fault_log(worker, "topic-made-again") >= 1
    assert worker.process.poll() is None

    worker.kill()
    recreate(cluster)
    cluster.feed([("n3", xid(3)), *[("n3", b"quiet")] * 20])
    again = cluster.start_worker()
    has_read_all(again, cluster, 21)
    eventually(lambda: nodes(cluster) == {"n1", "n2", "n3"}, 60, "the failure while no worker ran")
    dead_letters = cluster.run("dead-letters", "list", "--json").splitlines()
    assert len(dead_letters) == 2


def recreate(cluster: Cluster) -> None:
    """Delete the raw topic and create it again at once."""

    async def work(admin: AIOKafkaAdminClient) -> None:
        await admin.delete_topics([cluster.raw_topic])
        async with asyncio.timeout(30):
            while (await admin.create_topics([NewTopic(cluster.raw_topic, 1, 1)])).topic_errors[0][1] != 0:
                await asyncio.sleep(POLL_S)

    with_admin(cluster.bootstrap, work)


@pytest.mark.long
def test_offsets_committed_for_a_deleted_topic_are_ignored(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    cluster.feed([("n1", xid(1)), *[("n1", b"quiet")] * 4])
    commit(cluster, 3, "a-deleted-topic")
    worker = cluster.start_worker()
    has_read_all(worker, cluster, 5)
    assert fault_log(worker, "topic-made-again") == 1
    assert_logged_once(worker, "topic-made-again")


@pytest.mark.long
def test_an_offset_committed_by_another_program_is_reported(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    cluster.feed([("n1", xid(1)), *[("n1", b"quiet")] * 4])
    commit(cluster, 3, "")
    worker = cluster.start_worker()
    has_read_all(worker, cluster, 2)
    assert fault_log(worker, "foreign-commit") == 1
    assert_logged_once(worker, "foreign-commit")


def commit(cluster: Cluster, offset: int, metadata: str) -> None:
    async def work() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap, group_id=f"{cluster.name}.match", enable_auto_commit=False
        )
        await consumer.start()
        partition = TopicPartition(cluster.raw_topic, 0)
        consumer.assign([partition])
        await consumer.commit({partition: (offset, metadata)})
        await consumer.stop()

    asyncio.run(work())


def test_records_deleted_before_they_are_read_are_counted(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    first = cluster.start_worker()
    cluster.feed([("n1", b"quiet")] * 5)
    has_read_all(first, cluster, 5)
    first.kill()
    cluster.feed([*[("n1", b"quiet")] * 10, ("n2", xid(2))])
    partition = TopicPartition(cluster.raw_topic, 0)
    with_admin(kafka.bootstrap, lambda admin: admin.delete_records({partition: RecordsToDelete(12)}))
    worker = cluster.start_worker()
    has_read_all(worker, cluster, 4)
    assert worker.metric("epicenter_lost_records_total") == 7
    assert fault_log(worker, "records-lost") == 1
    assert_logged_once(worker, "records-lost")
    eventually(lambda: nodes(cluster) == {"n2"}, 60, "the failure behind the gap")


@pytest.mark.long
def test_a_record_from_the_future_makes_no_other_record_late(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    no_limit = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    resource = ConfigResource(ConfigResourceType.TOPIC, cluster.raw_topic, no_limit)
    with_admin(kafka.bootstrap, lambda admin: admin.alter_configs([resource]))
    worker = cluster.start_worker()
    in_three_days_ms = time_ns() // 1_000_000 + 3 * 86_400_000
    stated = b'{"message": "quiet", "host": "n9", "timestamp": "%d"}' % in_three_days_ms

    def is_accepted() -> bool:
        try:
            asyncio.run(feed(cluster, [(0, b"untimed"), (0, stated)], in_three_days_ms))
        except InvalidTimestampError:
            return False
        return True

    eventually(is_accepted, 10, "the broker accepts such records")
    has_read_all(worker, cluster, 2)
    assert fault_log(worker, "record-from-the-future") == 2
    assert_logged_once(worker, "record-from-the-future")
    for number in (1, 2):
        cluster.feed([(f"n{number}", xid_of_today(number))])
        eventually(lambda: len(nodes(cluster)) == number, 60, "a failure of today")  # noqa: B023
    assert sum(worker.metric(f'epicenter_signals{{outcome="late/{number}"}}') for number in range(4)) == 0


def xid_of_today(number: int) -> bytes:
    now = datetime.now(UTC).isoformat(timespec="microseconds").encode()
    return now + xid(number)[len(now) :]


async def feed(cluster: Cluster, records: list[tuple[int, bytes]], timestamp_ms: int | None = None) -> None:
    """Produce (partition, value) pairs."""
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    await producer.start()
    try:
        for partition, value in records:
            await producer.send_and_wait(cluster.raw_topic, value, partition=partition, timestamp_ms=timestamp_ms)
    finally:
        await producer.stop()


def test_an_aborted_transaction_is_not_read_and_leaves_no_lag(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1", FETCH_RECORDS="1")

    async def transactions() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=cluster.name)
        await producer.start()
        for number, is_committed in ((1, True), (2, False), (3, True), (4, False)):
            await producer.begin_transaction()
            for value in (xid(number), b"quiet"):
                await producer.send_and_wait(cluster.raw_topic, value, partition=0)
            await (producer.commit_transaction() if is_committed else producer.abort_transaction())
        await producer.stop()

    asyncio.run(transactions())
    worker = cluster.start_worker()
    has_read_all(worker, cluster, 4)
    eventually(lambda: nodes(cluster) == {"n1", "n3"}, 60, "the committed failures")
    assert worker.metric('epicenter_matches_total{rule="nvidia.xid_79"}') == 2


def test_a_report_cut_by_the_end_of_the_log_is_matched(kafka: Any, clickhouse: Any, make_cluster: MakeCluster) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    worker = cluster.start_worker()
    cluster.feed([("n1", vector("n1", 1, "Traceback (most recent call last):", job="A"))])
    has_read_all(worker, cluster, 1)
    assert worker.metric('epicenter_matches_total{rule="python.traceback"}') == 1


def test_the_broker_knows_whether_something_follows_what_was_read(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    raw = TopicPartition(cluster.raw_topic, 0)

    async def read() -> None:
        await feed(cluster, [(0, b"one"), (0, b"two")])
        async with AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, isolation_level="read_committed") as consumer:
            batches = RawBatches(consumer, most_records=1)
            consumer.assign([raw])
            consumer.seek(raw, 0)
            ((_, first),) = await batches.fetch(30_000)
            assert (first.next_offset, batches.end_seen_ms(raw, 1)) == (1, None)
            ((_, second),) = await batches.fetch(30_000)
            seen_ms = batches.end_seen_ms(raw, second.next_offset)
            assert seen_ms is not None
            async with asyncio.timeout(30):
                while batches.end_seen_ms(raw, 2) == seen_ms:
                    assert await batches.fetch(200) == []
            await feed(cluster, [(0, b"three")])
            async with asyncio.timeout(30):
                while batches.end_seen_ms(raw, 2) is not None:
                    await asyncio.sleep(POLL_S)
            assert batches.end_seen_ms(TopicPartition(cluster.raw_topic, 1), 0) is None

    asyncio.run(read())


@pytest.mark.parametrize("broken", [pytest.param(broken_checksum, marks=pytest.mark.long), broken_payload])
def test_a_corrupt_batch_becomes_a_dead_letter_and_later_batches_are_read(
    clickhouse: Any, make_cluster: MakeCluster, tmp_path: Path, broken: Broken
) -> None:
    with own_broker(tmp_path / "kafka") as broker:
        if not isinstance(broker, JavaBroker):
            pytest.skip("the broker's files are inside its container")
        cluster = make_cluster(broker.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
        for number in (1, 2, 3):
            cluster.feed([(f"n{number}", xid(number)), (f"n{number}", b"quiet"), (f"n{number}", b"quiet")])
        corrupt_on_disk(broker, tmp_path / "kafka", {TopicPartition(cluster.raw_topic, 0): 3}, broken)
        worker = cluster.start_worker()
        has_read_all(worker, cluster, 9)
        eventually(lambda: nodes(cluster) == {"n1", "n3"}, 60, "the failures around it")
        assert worker.metric("epicenter_dead_letters_total") == 3
        assert fault_log(worker, "corrupt-batch") == 1
        assert_logged_once(worker, "corrupt-batch")
        (line,) = eventually(lambda: cluster.run("dead-letters", "list").splitlines(), 30, "the dead letter")
        assert f"{cluster.raw_topic}/0:3 " in line
        assert "corrupt batch: offsets 3 to 5: " in line


@pytest.mark.long
def test_a_foreign_member_of_our_group_is_reported_and_survived(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="2")
    worker = cluster.start_worker()
    cluster.feed([("n1", xid(1))])
    has_read_all(worker, cluster, 1)
    asyncio.run(share_group_with_a_foreign_member(cluster, worker))
    asyncio.run(feed(cluster, [(0, xid(2)), (1, xid(3))]))
    eventually(lambda: nodes(cluster) == {"n1", "n2", "n3"}, 60, "all partitions are read again")
    assert worker.process.poll() is None


@pytest.mark.long
def test_a_worker_waits_for_a_group_with_another_assignment_protocol(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    cluster.feed([("n1", xid(1))])
    worker = asyncio.run(start_behind_a_foreign_member(cluster))
    has_read_all(worker, cluster, 1)
    assert_logged_once(worker, 'kind=kafka-error error="fetch: InconsistentGroupProtocolError')


async def start_behind_a_foreign_member(cluster: Cluster) -> Worker:
    """A worker that starts while a program with another assignment protocol is in its group; that one leaves later."""
    foreigner = AIOKafkaConsumer(
        cluster.raw_topic,
        bootstrap_servers=cluster.bootstrap,
        group_id=f"{cluster.name}.match",
        partition_assignment_strategy=(RangePartitionAssignor,),
        enable_auto_commit=False,
    )
    await foreigner.start()
    try:
        worker = await asyncio.to_thread(cluster.start_worker)
        named = lambda: fault_log(worker, "kafka-error") > 2  # noqa: E731
        await asyncio.to_thread(lambda: eventually(named, 30, "its name"))
    finally:
        await foreigner.stop()
    return worker


async def share_group_with_a_foreign_member(cluster: Cluster, worker: Worker) -> None:
    """Another program holds half of the partitions until our worker reports it, and then leaves."""
    foreigner = AIOKafkaConsumer(
        cluster.raw_topic,
        bootstrap_servers=cluster.bootstrap,
        group_id=f"{cluster.name}.match",
        client_id="another-program",
        session_timeout_ms=6_000,
        enable_auto_commit=False,
    )
    await foreigner.start()
    try:
        await asyncio.to_thread(lambda: eventually(lambda: fault_log(worker, "group-shared"), 30, "its name"))
        assert "another-program" in worker.log.read_text()
    finally:
        await foreigner.stop()


@pytest.mark.long
def test_a_worker_removed_from_its_group_rejoins(kafka: Any, clickhouse: Any, make_cluster: MakeCluster) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    worker = cluster.start_worker()
    cluster.feed([("n1", xid(1))])
    has_read_all(worker, cluster, 1)
    with worker.frozen():
        eventually(lambda: members(cluster) == 0, 30, "the broker removes it")
    cluster.feed([("n2", xid(2))])
    has_read_all(worker, cluster, 2)
    eventually(lambda: nodes(cluster) == {"n1", "n2"}, 60, "the failure after that")


def members(cluster: Cluster) -> int:
    async def count(admin: AIOKafkaAdminClient) -> int:
        try:
            (answer,) = await admin.describe_consumer_groups([f"{cluster.name}.match"])
        except KafkaError:
            return -1
        return len(answer.to_object()["groups"][0]["members"])

    return int(with_admin(cluster.bootstrap, count))
