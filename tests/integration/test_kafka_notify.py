"""Incidents of the cluster path reach a real webhook: once, whatever is killed or away meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from deploy.dev.process import free_ports
from epicenter.rules.alerts.silences import Silence
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.operator_actions import write_silence
from tests.support.cluster import Cluster, Worker
from tests.support.incidents import opened_and_resolved
from tests.support.receiver import Receiver
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

XID = b"2026-03-02T09:00:01.500000+00:00 n1 kernel: [   12.000001] NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off"
LATER_XID = XID.replace(b"09:00:01", b"13:00:01").replace(b" n1 ", b" n2 ")
ON_N1, ON_N2 = [("opened", f"GPU has fallen off the bus on {node}, GPU 0000:9a:00") for node in ("n1", "n2")]
OVER_ON_N1 = ("resolved", ON_N1[1])
"""The later line comes hours after: the first incident is over then."""


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def make_cluster(kafka: Any, clickhouse: Any, tmp_path: Path) -> Iterator[Callable[[Receiver], Cluster]]:
    made: list[Cluster] = []

    def make(receiver: Receiver) -> Cluster:
        made.append(Cluster(kafka.bootstrap, clickhouse.dsn, tmp_path, WEBHOOK_URL=receiver.url))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


def values_of(cluster: Cluster, topic: str) -> list[tuple[str, bytes]]:
    """All records of one of the cluster's topics, by partition."""
    return asyncio.run(_values_of(cluster.bootstrap, f"{cluster.name}.{topic}"))


async def _values_of(bootstrap: str, topic: str) -> list[tuple[str, bytes]]:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        sources = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        left, found = sum((await consumer.end_offsets(sources)).values()), []
        while len(found) < left:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                found += [((record.key or b"").decode(), record.value) for record in records]
        return found
    finally:
        await consumer.stop()


def outcomes(cluster: Cluster) -> list[tuple[Any, ...]]:
    """What the store knows of deliveries, by node."""
    client = connect(cluster.store)
    try:
        return client.query(
            "SELECT root_node, outcome FROM deliveries FINAL INNER JOIN incidents FINAL USING incident_id ORDER BY ALL"
        )
    finally:
        client.close()


def test_told_once_though_the_receiver_is_away_and_the_worker_is_killed(
    receiver: Receiver, make_cluster: Callable[[Receiver], Cluster]
) -> None:
    with receiver.listening():
        pass
    cluster = make_cluster(receiver)
    victim = cluster.start_worker()
    cluster.feed([("n1", XID)])
    eventually(lambda: victim.metric("epicenter_deliveries_pending"), 60, "a delivery that fails")
    eventually(lambda: cluster.incidents(), 30, "the store, which does not wait for the receiver")
    with receiver.listening():
        eventually(lambda: receiver.requests, 60, "the delivery")
        (proof,) = receiver.requests[0][1]["incident"]["evidence"]
        assert (proof["node"], XID.decode().endswith(proof["text"])) == ("n1", True)
        victim.kill()

        cluster.feed(values_of(cluster, "incidents"), f"{cluster.name}.incidents")
        worker = cluster.start_worker()
        cluster.feed([("n2", LATER_XID)])
        eventually(lambda: len(set(receiver.ids)) == 3, 60, "the notifications after the kill")
        assert sorted(set(receiver.titles)) == sorted([ON_N1, OVER_ON_N1, ON_N2])
        eventually(lambda: worker.metric("epicenter_delivery_seconds_count") >= 2, 10, "the metric")


def replayed(cluster: Cluster) -> str:
    """What `epicenter dead-letters replay` says of all that was refused."""
    return cluster.invoke("dead-letters", "replay", "--reason", "rejected it with 422").stderr.decode()


def test_what_is_refused_is_dead_lettered_and_what_is_older_than_the_webhook_is_not_told(
    receiver: Receiver, make_cluster: Callable[[Receiver], Cluster]
) -> None:
    receiver.status = 422
    opened, _ = opened_and_resolved("long-ago")
    with receiver.listening():
        cluster = make_cluster(receiver)
        two_hours_ago_ms = int(time.time() * 1000) - 2 * 3600 * 1000
        cluster.feed([(opened.incident_id, msgspec.json.encode(opened))], f"{cluster.name}.incidents", two_hours_ago_ms)
        worker = cluster.start_worker()
        cluster.feed([("n1", XID)])
        ((_, dead_letter),) = eventually(lambda: values_of(cluster, "deadletters"), 60, "the dead letter")
        assert b"webhook: 127.0.0.1 rejected it with 422: as told" in dead_letter
        assert b".incidents/" in dead_letter
        receiver.status = 200
        eventually(lambda: "1 sent again" in replayed(cluster), 30, "the letter in the store")
        eventually(lambda: receiver.accepted, 30, "what was refused, replayed")
        cluster.feed([("n2", LATER_XID)])
        in_the_end = sorted([ON_N1, ON_N1, OVER_ON_N1, ON_N2])
        eventually(lambda: sorted(receiver.titles) == in_the_end, 60, "the next ones")
        eventually(lambda: worker.metric("epicenter_deliveries_total") >= 4, 10, "all counted")
        kept = [("n1", "refused"), ("n1", "sent"), ("n1", "sent"), ("n2", "sent")]
        eventually(lambda: outcomes(cluster) == kept, 30, "all in the store")


def keep(cluster: Cluster, silence: Silence) -> None:
    """Write a silence as the page does."""
    client = connect(cluster.store)
    try:
        migrate(client)
        write_silence(client, silence)
    finally:
        client.close()


def test_what_is_silenced_is_told_by_the_first_revision_after_that(
    receiver: Receiver, make_cluster: Callable[[Receiver], Cluster]
) -> None:
    opened, _ = opened_and_resolved("n1")
    now_ns = time.time_ns()
    silence = Silence("s1", {"node": "n1"}, 0, now_ns + 3600 * NS_PER_S, "ada", "known", now_ns)
    with receiver.listening():
        cluster = make_cluster(receiver)
        keep(cluster, silence)
        cluster.start_worker()

        def revise(revision: int) -> None:
            revised = msgspec.json.encode(msgspec.structs.replace(opened, revision=revision))
            cluster.feed([(opened.incident_id, revised)], f"{cluster.name}.incidents")

        revise(1)
        revise(2)
        eventually(lambda: outcomes(cluster) == [("n1", "silenced")], 60, "the note")
        assert receiver.requests == []
        keep(cluster, msgspec.structs.replace(silence, ends_ns=time.time_ns(), changed_ns=time.time_ns()))
        revisions = iter(range(3, 100))
        eventually(lambda: revise(next(revisions)) or receiver.requests, 30, "the revision after the end")
        eventually(lambda: outcomes(cluster) == [("n1", "sent"), ("n1", "silenced")], 30, "both in the store")
        assert receiver.titles == [ON_N1]


def test_with_a_store_that_is_away_everything_is_told(
    receiver: Receiver, make_cluster: Callable[[Receiver], Cluster]
) -> None:
    with receiver.listening():
        cluster = make_cluster(receiver)
        worker = cluster.start_worker(STORE=f"http://127.0.0.1:{free_ports(1)[0]}/away")
        cluster.feed([("n1", XID)])
        eventually(lambda: receiver.titles == [ON_N1], 60, "the notification")
    assert worker.log.read_text().count("silences can't be read, so nothing is muted") == 1


def test_no_two_workers_deliver_the_same_though_partitions_move_while_the_receiver_is_away(
    receiver: Receiver, make_cluster: Callable[[Receiver], Cluster]
) -> None:
    receiver.status = 503
    opened, _ = opened_and_resolved()
    names = {f"incident-{number}" for number in range(12)}
    with receiver.listening():
        cluster = make_cluster(receiver)
        workers = [cluster.start_worker(), cluster.start_worker()]
        revisions = [(name, msgspec.json.encode(msgspec.structs.replace(opened, incident_id=name))) for name in names]
        cluster.feed(revisions, f"{cluster.name}.incidents")

        def pending(asked: list[Worker]) -> list[float]:
            return [worker.metric("epicenter_deliveries_pending") for worker in asked]

        eventually(lambda: sum(pending(workers)) == len(names), 60, "everything waits")
        with workers[0].frozen():  # so the others wait long between giving partitions back and being given new ones
            workers.append(cluster.start_worker())
            eventually(lambda: sum(pending(workers[1:])) >= len(names), 60, "they took over")
        eventually(lambda: sum(pending(workers)) == len(names) and all(pending(workers)), 60, "each has its share")
        receiver.status = 200
        eventually(lambda: len(set(receiver.accepted)) == len(names), 90, "the delivery")
        eventually(lambda: sum(pending(workers)) == 0, 30, "nothing waits")
        assert len(receiver.accepted) == len(names), "nothing twice"
