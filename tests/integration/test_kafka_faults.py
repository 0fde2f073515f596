"""The cluster path with faults: poison records, an unreachable broker or store."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.dev.broker import own_broker
from deploy.dev.clickhouse import dev_clickhouse
from deploy.dev.process import EPICENTER, free_ports
from epicenter.rules.errors import TransientError
from epicenter.sinks.clickhouse.client import connect
from epicenter.stream.kafka.topics import admin_of
from epicenter.stream.load_settings import load_settings
from tests.support.cluster import Cluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

XID = b"2026-03-02T09:00:01.500000+00:00 n1 kernel: [   12.000001] NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off"
LATER_XID = XID.replace(b"09:00:01", b"13:00:01").replace(b" n1 ", b" n2 ")
MEGABYTES_10 = b"x" * (10 << 20)
POISON = {
    b"": "empty value",
    b'{"message": null, "host": "n1"}': "wrong shape: field 'message' should be text, found NoneType",
    b'{"log": {"a": 1}}': "wrong shape: field 'log' should be text, found dict",
    b'{"message": "cut of': "not JSON",
    MEGABYTES_10: "too large: 10485760 bytes",
}
UNUSUAL_BUT_VALID = (
    b"\xff\xfe\x00 not utf-8",
    b"[1, 2, 3]",
    b"{'loss': 0.5}",
    b'{"step": 1}',
    b'{"message": "no time"}',
    b'{"message": "absurd time", "timestamp": "1970-01-01T00:00:00Z"}',
    b'{"message": "absurd time", "timestamp": 99999999999999999999}',
)


def rows(cluster: Cluster, sql: str) -> list[tuple[Any, ...]]:
    client = connect(cluster.store)
    try:
        return client.query(sql)
    finally:
        client.close()


def command(cluster: Cluster, sql: str) -> None:
    client = connect(cluster.store)
    try:
        client.command(sql)
    finally:
        client.close()


def incident_nodes(cluster: Cluster) -> set[str]:
    return {node for incident in cluster.incidents() for node in incident["nodes"]}


def test_poison_records_become_dead_letters_and_later_records_are_processed(
    kafka: Any, clickhouse: Any, make_cluster: Callable[..., Cluster]
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn)
    records = [*POISON, *UNUSUAL_BUT_VALID, None, XID]
    cluster.feed(("n1", value) for value in records)
    worker = cluster.start_worker()

    eventually(lambda: "n1" in incident_nodes(cluster), 60, "the incident after the poison")
    columns = "reason, position_source, position_offset, size_bytes"
    sql = f"SELECT {columns} FROM dead_letters FINAL ORDER BY position_offset"
    dead_letters = eventually(
        lambda: found if len(found := rows(cluster, sql)) > len(POISON) else None, 30, "dead letters"
    )

    assert [(offset, size) for _, _, offset, size in dead_letters] == [
        *((number, len(value)) for number, value in enumerate(POISON)), (records.index(None), 0)
    ]  # fmt: skip
    for (reason, source, _, _), wanted in zip(dead_letters, [*POISON.values(), "empty value"], strict=True):
        assert reason.startswith(wanted)
        assert source.startswith(cluster.raw_topic + "/")
    wanted_counts = {"records": len(records), "matched_records": 1, "quiet_records": len(UNUSUAL_BUT_VALID)}
    wanted_counts["dead_letters"] = len(dead_letters)
    assert {name: worker.metric(f"epicenter_{name}_total") for name in wanted_counts} == wanted_counts


def test_a_foreign_message_becomes_a_dead_letter(
    kafka: Any, clickhouse: Any, make_cluster: Callable[..., Cluster]
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn)
    cluster.feed([("stranger", b"not msgpack")], f"{cluster.name}.matches")
    cluster.feed([("n1", XID)])
    cluster.start_worker()
    eventually(lambda: "n1" in incident_nodes(cluster), 60, "the incident")
    sql = "SELECT reason FROM dead_letters FINAL"
    ((reason,),) = eventually(lambda: rows(cluster, sql), 30, "the dead letter")
    assert reason.startswith("no message of ours")


def test_nothing_is_lost_while_the_store_is_unreachable(
    kafka: Any, make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    with dev_clickhouse(tmp_path / "store") as store:
        cluster = make_cluster(kafka.bootstrap, store.dsn)
        store.kill()
        cluster.feed([("n1", XID)])
        worker = cluster.start_worker()
        eventually(lambda: worker.metric("epicenter_store_failures_total"), 60, "a write that fails")
        assert worker.metric("epicenter_matched_records_total") == 1
        store.start()
        eventually(lambda: incident_nodes(cluster) == {"n1"}, 60, "the rows of the outage")

        store.kill()
        failures = worker.metric("epicenter_store_failures_total")
        cluster.feed([("n2", LATER_XID)])
        eventually(lambda: worker.metric("epicenter_store_failures_total") > failures, 60, "another write that fails")
        store.start()
        eventually(lambda: incident_nodes(cluster) == {"n1", "n2"}, 60, "the rows of the second outage")
        assert worker.process.poll() is None


def test_nothing_is_lost_while_the_store_lacks_a_table(
    kafka: Any, clickhouse: Any, make_cluster: Callable[..., Cluster]
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn)
    worker = cluster.start_worker()
    cluster.feed([("n1", XID)])
    eventually(lambda: incident_nodes(cluster) == {"n1"}, 60, "the first incident")
    command(cluster, "RENAME TABLE matches TO set_aside")
    cluster.feed([("n2", LATER_XID)])
    eventually(lambda: worker.metric("epicenter_store_failures_total"), 60, "a write that fails")
    command(cluster, "RENAME TABLE set_aside TO matches")
    eventually(lambda: incident_nodes(cluster) == {"n1", "n2"}, 60, "the rows of the outage")
    assert rows(cluster, "SELECT node FROM matches FINAL ORDER BY node") == [("n1",), ("n2",)]
    assert rows(cluster, "SELECT count() FROM dead_letters") == [(0,)]


def test_a_worker_without_a_broker_exits_with_69(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [*EPICENTER, "worker", "--kafka", address, "--data-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 69
    assert done.stderr.startswith(f"epicenter: Kafka is unreachable: {address}")
    assert "Traceback" not in done.stderr


def test_a_worker_without_topics_exits_with_78(kafka: Any, tmp_path: Path) -> None:
    env_free = ["--kafka", kafka.bootstrap, "--data-dir", str(tmp_path)]
    config = tmp_path / "epicenter.toml"
    config.write_text('prefix = "not-created"\n')
    command = [*EPICENTER, "worker", *env_free, "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 78
    assert "no topic not-created.matches" in done.stderr
    assert "run `epicenter topics`" in done.stderr


async def test_a_broker_that_dies_while_topics_are_listed_is_unreachable(tmp_path: Path) -> None:
    with own_broker(tmp_path / "kafka") as broker, pytest.raises(TransientError, match="Kafka is unreachable"):
        async with admin_of(load_settings(kafka=broker.bootstrap, data_dir=tmp_path)) as admin:
            broker.kill()
            await admin.list_topics()


def test_a_worker_resumes_after_the_broker_restarts(
    clickhouse: Any, make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    with own_broker(tmp_path / "kafka") as broker:
        cluster = make_cluster(broker.bootstrap, clickhouse.dsn)
        worker = cluster.start_worker()
        cluster.feed([("n1", XID)])
        eventually(lambda: incident_nodes(cluster) == {"n1"}, 60, "the first incident")
        broker.kill()
        assert "status" in worker.get("/healthz")
        broker.start()
        cluster.feed([("n2", LATER_XID)])
        eventually(lambda: incident_nodes(cluster) == {"n1", "n2"}, 90, "the incident after the broker's restart")
        assert worker.process.poll() is None, worker.log.read_text()
