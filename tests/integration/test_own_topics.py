"""Faults of our own topics: each is named, counted and survived."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import RecordsToDelete

from deploy.dev.broker import JavaBroker, own_broker
from epicenter.sinks.clickhouse.client import connect
from epicenter.stream.kafka.messages import ScanMessage, decode
from epicenter.stream.kafka.topics import TopicNames
from tests.integration.test_kafka_recovery import stop
from tests.integration.test_raw_faults import fault_log, has_read_all, nodes, xid
from tests.support.cluster import Cluster, Worker, everything_in, with_admin
from tests.support.corruption import broken_checksum, corrupt_on_disk
from tests.support.receiver import Receiver
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration
MakeCluster = Callable[..., Cluster]

FIRST_NOTIFICATION = 3
"""The messages of the first notification in the alerts' topic: they are one batch."""


def lost(worker: Worker, group: str, source: str) -> float:
    return worker.metric(f'epicenter_lost_messages_total{{group="{group}",source="{source}"}}')


def stored(cluster: Cluster) -> set[str]:
    client = connect(cluster.store)
    try:
        return {node for (node,) in client.query("SELECT node FROM matches FINAL")}
    finally:
        client.close()


def dead_letters(cluster: Cluster) -> list[str]:
    return cluster.run("dead-letters", "list").splitlines()


def has_match_on(value: bytes | None, node: str) -> bool:
    message = decode(value or b"")
    return isinstance(message, ScanMessage) and any(
        match.event.node == node for part in message.parts for match in part.matches
    )


@contextmanager
def matched(cluster: Cluster, *numbers: int) -> Iterator[None]:
    """A worker that only matches processes these failures, each in a separate batch."""
    worker = cluster.start_worker(SERVICES="match")
    for read, number in enumerate(numbers, 1):
        cluster.feed([(f"n{number}", xid(number))])
        has_read_all(worker, cluster, read)
    yield
    stop(worker)


def test_only_the_corrupt_batch_of_matches_becomes_a_dead_letter(
    clickhouse: Any, make_cluster: MakeCluster, tmp_path: Path
) -> None:
    with own_broker(tmp_path / "kafka") as broker:
        if not isinstance(broker, JavaBroker):
            pytest.skip("the broker's files are inside its container")
        cluster = make_cluster(broker.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1", MATCH_PARTITIONS="1")
        with matched(cluster, 1, 2, 3):
            pass
        matches = TopicPartition(TopicNames(cluster.name).matches, 0)
        (chosen,) = [
            record.offset for record in everything_in(broker.bootstrap, matches) if has_match_on(record.value, "n2")
        ]
        bad = corrupt_on_disk(broker, tmp_path / "kafka", {matches: chosen}, broken_checksum)[matches]

        worker = cluster.start_worker()
        eventually(lambda: nodes(cluster) == {"n1", "n3"}, 60, "the incidents around it")
        eventually(lambda: stored(cluster) == {"n1", "n3"}, 30, "the rows around it")
        (dead_letter,) = eventually(lambda: dead_letters(cluster), 30, "the dead letter")
        source = f"{matches.topic}/0"
        assert f"{source}:{bad[0]} " in dead_letter
        assert f"corrupt batch: offsets {bad[0]} to {bad[-1]}: " in dead_letter
        assert {lost(worker, f"{cluster.name}.{group}", source) for group in ("correlate", "store")} == {len(bad)}
        assert fault_log(worker, "corrupt-batch") == 2
        stop(worker)


@pytest.mark.long
def test_corrupt_batches_of_all_other_topics_are_passed_over(
    clickhouse: Any, make_cluster: MakeCluster, tmp_path: Path
) -> None:
    receiver = Receiver()
    with own_broker(tmp_path / "kafka") as broker, receiver.listening():
        if not isinstance(broker, JavaBroker):
            pytest.skip("the broker's files are inside its container")
        given = {"RAW_PARTITIONS": "1", "MATCH_PARTITIONS": "1", "WEBHOOK_URL": receiver.url, "SNAPSHOT_EVERY": "1s"}
        cluster = make_cluster(broker.bootstrap, clickhouse.dsn, **given)
        names = TopicNames(cluster.name)
        worker = cluster.start_worker()
        for number in (1, 2):
            cluster.feed([(f"n{number}", xid(number)), ("n1", b"")])
            eventually(lambda: len(receiver.requests) >= number, 60, "the notification")  # noqa: B023
            eventually(lambda: len(dead_letters(cluster)) == number, 30, "the dead letter")  # noqa: B023
        stop(worker)
        notified = receiver.ids
        bad = dict.fromkeys((names.incidents, names.alerts, names.dead_letters), 0)
        bad[names.snapshots] = everything_in(broker.bootstrap, TopicPartition(names.snapshots, 0))[-1].offset
        partitions = {TopicPartition(name, 0): offset for name, offset in bad.items()}
        corrupt_on_disk(broker, tmp_path / "kafka", partitions, broken_checksum)
        for group, topics in {
            names.store_group: (names.incidents, names.dead_letters),
            names.notify_group: (names.incidents,),
        }.items():
            commit(cluster, group, {TopicPartition(topic, 0): 0 for topic in topics})

        worker = cluster.start_worker()
        cluster.feed([("n3", xid(3))])
        eventually(lambda: nodes(cluster) == {"n1", "n2", "n3"}, 60, "all incidents")
        eventually(lambda: set(receiver.ids) > set(notified), 60, "the next notification")
        eventually(lambda: len(dead_letters(cluster)) == 5, 30, f"dead letters: {dead_letters(cluster)}")
        for group, topic, messages in (
            (names.store_group, names.incidents, 1),
            (names.store_group, names.dead_letters, 1),
            (names.notify_group, names.incidents, 1),
            (names.notify_group, names.alerts, FIRST_NOTIFICATION),
        ):
            assert lost(worker, group, f"{topic}/0") == messages, (group, topic)
        assert worker.metric('epicenter_snapshot_failures_total{reason="unreadable"}') == 1
        stop(worker)


def commit(cluster: Cluster, group: str, offsets: dict[TopicPartition, int]) -> None:
    async def work() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=group, enable_auto_commit=False)
        await consumer.start()
        consumer.assign(list(offsets))
        await consumer.commit(offsets)
        await consumer.stop()

    asyncio.run(work())


def committed(cluster: Cluster, group: str, partition: TopicPartition) -> int:
    found = with_admin(
        cluster.bootstrap, lambda admin: admin.list_consumer_group_offsets(group, partitions=[partition])
    )
    return int(found[partition].offset)


def test_messages_deleted_before_they_are_read_are_counted(clusters: MakeCluster) -> None:
    cluster = clusters(RAW_PARTITIONS="1", MATCH_PARTITIONS="1")
    names = TopicNames(cluster.name)
    matches = TopicPartition(names.matches, 0)
    groups = (names.correlate_group, names.store_group)
    first = cluster.start_worker()
    cluster.feed([("n1", xid(1))])
    eventually(lambda: nodes(cluster) == {"n1"}, 60, "the first incident")
    eventually(lambda: all(committed(cluster, group, matches) > 0 for group in groups), 30, "commits")
    stop(first)
    read = {group: committed(cluster, group, matches) for group in groups}
    matcher = cluster.start_worker(SERVICES="match")
    cluster.feed([("n2", xid(2))])
    has_read_all(matcher, cluster, 1)
    end = everything_in(cluster.bootstrap, matches)[-1].offset + 1
    with_admin(cluster.bootstrap, lambda admin: admin.delete_records({matches: RecordsToDelete(end)}))
    cluster.feed([("n3", xid(3))])
    has_read_all(matcher, cluster, 2)
    stop(matcher)

    worker = cluster.start_worker()
    eventually(lambda: nodes(cluster) == {"n1", "n3"}, 60, "the incident behind the gap")
    eventually(lambda: stored(cluster) == {"n1", "n3"}, 30, "the row behind the gap")
    assert {group: lost(worker, group, f"{matches.topic}/0") for group in groups} == {
        group: end - read[group] for group in groups
    }
    assert fault_log(worker, "records-lost") == 2
    assert worker.log.read_text().count("kind=records-lost") == 2
    stop(worker)


@pytest.mark.long
def test_a_worker_waits_for_its_deleted_topics(clusters: MakeCluster) -> None:
    cluster = clusters(RAW_PARTITIONS="1", MATCH_PARTITIONS="1")
    worker = cluster.start_worker()
    cluster.feed([("n1", xid(1))])
    eventually(lambda: nodes(cluster) == {"n1"}, 60, "the first incident")
    for name in ("matches", "incidents"):
        before = fault_log(worker, "topic-missing")
        with_admin(cluster.bootstrap, lambda admin: admin.delete_topics([f"{cluster.name}.{name}"]))  # noqa: B023
        eventually(lambda: fault_log(worker, "topic-missing") > before, 30, "its name")  # noqa: B023
    eventually(lambda: cluster.run("topics").count("created") == 2, 30, "the recreated topics")
    cluster.feed([("n2", xid(2))])
    eventually(lambda: nodes(cluster) == {"n1", "n2"}, 60, "the next incident")
    stop(worker)


@pytest.mark.long
def test_a_recreated_topic_of_matches_is_read_from_its_start_even_beyond_the_snapshots_offset(
    clusters: MakeCluster,
) -> None:
    cluster = clusters(RAW_PARTITIONS="1", MATCH_PARTITIONS="1")
    matches = TopicPartition(TopicNames(cluster.name).matches, 0)
    worker = cluster.start_worker()
    cluster.feed([("n1", xid(1))])
    eventually(lambda: nodes(cluster) == {"n1"}, 60, "the first incident")
    stop(worker)
    before = everything_in(cluster.bootstrap, matches)
    with_admin(cluster.bootstrap, lambda admin: admin.delete_topics([matches.topic]))
    eventually(lambda: "created" in cluster.run("topics"), 30, "the recreated topic")
    matcher = cluster.start_worker(SERVICES="match")
    cluster.feed([("n2", xid(2))])
    has_read_all(matcher, cluster, 1)
    stop(matcher)
    cluster.feed([(None, before[-1].value)] * len(before), matches.topic)

    worker = cluster.start_worker()
    cluster.feed([("n3", xid(3))])
    eventually(lambda: nodes(cluster) == {"n1", "n2", "n3"}, 60, "the incidents of the new topic")
    faults = [line for line in worker.log.read_text().splitlines() if "kind=topic-made-again" in line]
    assert any(f"topic={matches.topic} partition=0" in line for line in faults)
    stop(worker)
