"""Incidents of the cluster path reach a real webhook once, whatever is killed or unreachable meanwhile."""

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
from epicenter.sinks.clickhouse.operator_actions import write_silences
from tests.support.cluster import Cluster, Worker
from tests.support.incidents import opened_and_resolved
from tests.support.receiver import Receiver
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

XID = b"2026-03-02T09:00:01.500000+00:00 n1 kernel: [   12.000001] NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off"
LATER_XID = XID.replace(b"09:00:01", b"13:00:01").replace(b" n1 ", b" n2 ")
ON_N1, ON_N2 = [("opened", f"GPU has fallen off the bus (Xid 79) on {node}, GPU 0000:9a:00") for node in ("n1", "n2")]
OVER_ON_N1 = ("resolved", ON_N1[1])
"""The later line is hours after: the first incident is resolved by then."""


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
    """The stored outcomes of deliveries, by node."""
    client = connect(cluster.store)
    try:
        return client.query(
            "SELECT root_node, outcome FROM deliveries FINAL INNER JOIN incidents FINAL USING incident_id ORDER BY ALL"
        )
    finally:
        client.close()


def test_each_notification_is_sent_once_despite_an_unreachable_receiver_and_a_killed_worker(
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
    """The messages of `epicenter dead-letters replay` for all rejected notifications."""
    return cluster.invoke("dead-letters", "replay", "--reason", "rejected it with 422").stderr.decode()


def test_a_refused_notification_becomes_a_dead_letter_and_an_old_incident_is_not_notified(
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
        assert b"webhook: 127.0.0.1 rejected it with 422: as configured" in dead_letter
        assert b".incidents/" in dead_letter
        receiver.status = 200
        eventually(lambda: "1 replayed" in replayed(cluster), 30, "the dead letter in the store")
        eventually(lambda: receiver.accepted, 30, "the replayed notification")
        cluster.feed([("n2", LATER_XID)])
        expected = sorted([ON_N1, ON_N1, OVER_ON_N1, ON_N2])
        eventually(lambda: sorted(receiver.titles) == expected, 60, "the next notifications")
        eventually(lambda: worker.metric("epicenter_deliveries_total") >= 4, 10, "all counted")
        stored = [("n1", "refused"), ("n1", "sent"), ("n1", "sent"), ("n2", "sent")]
        eventually(lambda: outcomes(cluster) == stored, 30, "all in the store")


def write(cluster: Cluster, silence: Silence) -> None:
    """Write a silence as the page does."""
    client = connect(cluster.store)
    try:
        migrate(client)
        write_silences(client, silence)
    finally:
        client.close()


def test_a_silenced_incident_is_notified_by_the_first_revision_after_the_silence(
    receiver: Receiver, make_cluster: Callable[[Receiver], Cluster]
) -> None:
    opened, _ = opened_and_resolved("n1")
    now_ns = time.time_ns()
    silence = Silence("s1", {"node": "n1"}, 0, now_ns + 3600 * NS_PER_S, "ada", "known", now_ns)
    with receiver.listening():
        cluster = make_cluster(receiver)
        write(cluster, silence)
        cluster.start_worker()

        def revise(revision: int) -> None:
            revised = msgspec.json.encode(msgspec.structs.replace(opened, revision=revision))
            cluster.feed([(opened.incident_id, revised)], f"{cluster.name}.incidents")

        revise(1)
        revise(2)
        eventually(lambda: outcomes(cluster) == [("n1", "silenced")], 60, "the outcome")
        assert receiver.requests == []
        write(cluster, msgspec.structs.replace(silence, ends_ns=time.time_ns(), changed_ns=time.time_ns()))
        revisions = iter(range(3, 100))
        eventually(lambda: revise(next(revisions)) or receiver.requests, 30, "the revision after the end")
        eventually(lambda: outcomes(cluster) == [("n1", "sent"), ("n1", "silenced")], 30, "both in the store")
        assert receiver.titles == [("opened", opened.title)]


def test_nothing_is_muted_while_the_store_is_unreachable(
    receiver: Receiver, make_cluster: Callable[[Receiver], Cluster]
) -> None:
    with receiver.listening():
        cluster = make_cluster(receiver)
        worker = cluster.start_worker(STORE=f"http://127.0.0.1:{free_ports(1)[0]}/away")
        cluster.feed([("n1", XID)])
        eventually(lambda: receiver.titles == [ON_N1], 60, "the notification")
    assert worker.log.read_text().count("silences can't be read, so nothing is muted") == 1


def test_notifications_are_delivered_once_when_partitions_move_during_an_outage_of_the_receiver(
    receiver: Receiver, make_cluster: Callable[[Receiver], Cluster]
) -> None:
    receiver.status = 503
    opened, _ = opened_and_resolved()
    names = {f"incident-{number}" for number in range(12)}
    with receiver.listening():
        cluster = make_cluster(receiver)

        def start_worker() -> Worker:
            """One that correlates would end these incidents, since no line confirms them."""
            return cluster.start_worker(SERVICES="store,notify")

        workers = [start_worker(), start_worker()]
        revisions = [(name, msgspec.json.encode(msgspec.structs.replace(opened, incident_id=name))) for name in names]
        cluster.feed(revisions, f"{cluster.name}.incidents")

        def pending(counted: list[Worker]) -> list[float]:
            return [worker.metric("epicenter_deliveries_pending") for worker in counted]

        eventually(lambda: sum(pending(workers)) == len(names), 60, "everything waits")
        with workers[0].frozen():  # so that the others wait long between the revocation and the assignment
            workers.append(start_worker())
            eventually(lambda: sum(pending(workers[1:])) >= len(names), 60, "they took over")
        eventually(lambda: sum(pending(workers)) == len(names) and all(pending(workers)), 60, "each has its share")
        receiver.status = 200
        eventually(lambda: len(set(receiver.accepted)) == len(names), 90, "the delivery")
        eventually(lambda: sum(pending(workers)) == 0, 30, "nothing waits")
        assert len(receiver.accepted) == len(names), "nothing twice"
