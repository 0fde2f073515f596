"""`epicenter dead-letters` on a real broker and a real store: list, show and replay."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from deploy.dev.process import EPICENTER
from epicenter.rules.model.ledger import MAX_KEPT_DEAD_BYTES
from epicenter.sinks.clickhouse.client import connect
from tests.support.cluster import Cluster
from tests.support.command import epicenter
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

OPERATIONS = Path(__file__).parents[2] / "docs/operations.md"
MakeCluster = Callable[..., Cluster]
XID = b"2026-03-02T09:00:01.500000+00:00 n1 kernel: [   12.000001] NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off"
SECRET_AND_WILD = b'{"message": "PGPASSWORD=hunter2-horse cut'
LATER_XID = XID.replace(b"09:00:01", b"13:00:01").replace(b" n1 ", b" n2 ")
WILD = b'{"message": "\x1b[2J \xff\xe2\x80\xae cut'
LARGE = b"y" * (2 << 20)


def dead_letters(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cluster.run("dead-letters", "list", "--json", *arguments).splitlines()]


def invoke(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return cluster.invoke("dead-letters", *arguments)


def records_of(cluster: Cluster) -> list[ConsumerRecord[bytes, bytes]]:
    """Every record of the raw topic."""
    return asyncio.run(_all_records(cluster.bootstrap, cluster.raw_topic))


async def _all_records(bootstrap: str, topic: str) -> list[ConsumerRecord[bytes, bytes]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=16 << 20)
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await consumer.start()
    await admin.start()
    try:
        count = len((await admin.describe_topics([topic]))[0]["partitions"])
        partitions = [TopicPartition(topic, number) for number in range(count)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        found: list[ConsumerRecord[bytes, bytes]] = []
        while len(found) < sum(ends.values()):
            found += [record for batch in (await consumer.getmany(timeout_ms=1000)).values() for record in batch]
        return found
    finally:
        await admin.close()
        await consumer.stop()


def test_dead_letters_of_every_hop_are_listed_shown_and_replayed(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="2")
    cluster.feed([("n1", WILD), ("n1", b""), ("n1", LARGE), ("n1", XID)])
    cluster.feed([("stranger", b"not msgpack")], f"{cluster.name}.matches")
    worker = cluster.start_worker()
    eventually(lambda: len(dead_letters(cluster)) == 4, 60, "four dead letters")

    by_reason = {letter["reason"].split(":")[0]: letter for letter in dead_letters(cluster)}
    assert set(by_reason) == {"not JSON", "empty value", "too large", "no message of ours"}
    kinds = {"not-json", "empty", "too-large", "not-ours"}
    assert {letter["kind"] for letter in by_reason.values()} == kinds
    assert all(letter["received"].startswith("20") and letter["replays"] == 0 for letter in by_reason.values())
    assert by_reason["too large"]["size_bytes"] == len(LARGE)
    assert dead_letters(cluster, "--reason", "NOT json") == [by_reason["not JSON"]]
    assert dead_letters(cluster, "--source", f"{cluster.name}.matches/") == [by_reason["no message of ours"]]
    assert len(dead_letters(cluster, "--since", "1h", "--limit", "3")) == 3
    assert dead_letters(cluster, "--since", "2999-01-01") == []

    wild = by_reason["not JSON"]["dead_letter_id"]
    assert invoke(cluster, "show", wild, "--raw").stdout == WILD
    shown = invoke(cluster, "show", wild).stdout.decode()
    assert r'{"message": "\x1b[2J \xff\u202e cut' in shown
    assert shown.isascii()
    document = json.loads(cluster.run("dead-letters", "show", wild[:8], "--json"))
    assert base64.b64decode(document["value_base64"]) == WILD
    assert base64.b64decode(document["key_base64"]) == b"n1"

    before = records_of(cluster)
    output = cluster.run("dead-letters", "replay", wild, by_reason["too large"]["dead_letter_id"])
    assert output.count("replayed as") == 2
    after = records_of(cluster)
    original = next(record for record in before if record.value == WILD)
    (again,) = (record for record in after if record.value == WILD and record.offset != original.offset)
    assert (again.key, again.partition, again.timestamp) == (b"n1", original.partition, original.timestamp)
    place = f"{original.topic}/{original.partition}:{original.offset}".encode()
    assert again.headers == (("epicenter-replay-of", place), ("epicenter-replays", b"1"))
    assert sum(record.value == LARGE for record in after) == 2

    eventually(lambda: len(dead_letters(cluster)) == 6, 60, "new dead letters for the records that failed again")
    assert worker.metric("epicenter_dead_letters_total") == 5
    cluster.run("dead-letters", "replay", "--reason", "not json")
    newest = max(records_of(cluster), key=lambda record: (record.value == WILD, record.offset))
    assert newest.headers == (("epicenter-replay-of", place), ("epicenter-replays", b"2"))

    cluster.feed([("n2", LATER_XID)])
    eventually(
        lambda: {n for incident in cluster.incidents() for n in incident["nodes"]} == {"n1", "n2"}, 60, "later lines"
    )


def test_replay_refuses_a_truncated_dead_letter_without_its_record(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn)
    gone = make_cluster(kafka.bootstrap, clickhouse.dsn)
    cluster.run("migrate")
    store_dead_letter(cluster, "a" * 16, f"{cluster.raw_topic}/0", 7, MAX_KEPT_DEAD_BYTES + 1)
    store_dead_letter(cluster, "b" * 16, "/var/log/kern.log", 7, 1)
    store_dead_letter(cluster, "c" * 16, f"{gone.raw_topic}/0", 7, 1)
    store_dead_letter(cluster, "d" * 16, f"{cluster.raw_topic}/99", 7, 1)
    store_dead_letter(cluster, "e" * 16, f"{cluster.raw_topic}/0", 8, 1)

    done = invoke(cluster, "replay", "--all")
    errors = done.stderr.decode()
    assert done.returncode == 66
    assert f"{'a' * 16}: not replayed: only 1 of its {MAX_KEPT_DEAD_BYTES + 1} bytes are stored" in errors
    assert "epicenter run --once FILE" in errors
    assert "EPICENTER_RAW_TOPIC" in errors
    assert f"no longer has partition {cluster.raw_topic}/99" in errors
    assert "1 replayed, 4 refused" in errors
    assert [record.value for record in records_of(cluster)] == [b"x"]
    assert b"0 replayed, 4 refused" in invoke(cluster, "replay", "--all").stderr


def test_a_redacted_dead_letter_is_replayed_with_its_original_bytes(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    cluster.feed([("n1", SECRET_AND_WILD)])
    cluster.start_worker()
    (dead_letter,) = eventually(lambda: dead_letters(cluster), 60, "the dead letter")
    document = json.loads(cluster.run("dead-letters", "show", dead_letter["dead_letter_id"], "--json"))
    assert base64.b64decode(document["value_base64"]) == b'{"message": "PGPASSWORD=[redacted:password] cut'
    assert document["size_bytes"] == len(SECRET_AND_WILD)
    cluster.run("dead-letters", "replay", dead_letter["dead_letter_id"])
    assert [record.value for record in records_of(cluster)] == [SECRET_AND_WILD, SECRET_AND_WILD]


def store_dead_letter(cluster: Cluster, dead_letter_id: str, source: str, offset: int, size_bytes: int) -> None:
    client = connect(cluster.store)
    try:
        client.command(
            "INSERT INTO dead_letters (dead_letter_id, reason, position_source, position_offset, size_bytes, value,"
            " received) SELECT {id:String}, 'not JSON', {source:String}, {offset:Int64}, {size:UInt64}, 'x', now64(9)",
            {"id": dead_letter_id, "source": source, "offset": offset, "size": size_bytes},
        )
    finally:
        client.close()


def test_only_the_row_that_the_store_refuses_becomes_a_dead_letter(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    cluster.run("migrate")
    good, bad = "NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off", "NVRM: Xid (PCI:0000:9a:00): 79, GPU is gone"
    execute(cluster, f"ALTER TABLE matches MODIFY COLUMN text Enum8('{good}' = 1)")
    texts = {f"n{number}": bad if number == 7 else good for number in range(40)}
    cluster.feed([("n1", b""), *((node, kernel_envelope(node, text)) for node, text in texts.items())])
    worker = cluster.start_worker()
    eventually(lambda: stored_nodes(cluster) == texts.keys() - {"n7"}, 60, "the rows of the same message")
    eventually(lambda: len(dead_letters(cluster)) == 2, 30, "the dead letter")
    (refused,) = dead_letters(cluster, "--source", f"{cluster.name}.matches/")
    assert "Unknown element" in refused["reason"]
    assert worker.metric('epicenter_store_failures_total{kind="refused"}') == 1
    on_nodes = lambda: {node for incident in cluster.incidents() for node in incident["nodes"]}  # noqa: E731
    eventually(lambda: on_nodes() == texts.keys(), 30, "the incidents")
    incidents = len(cluster.incidents())

    execute(cluster, "ALTER TABLE matches MODIFY COLUMN text String")
    cluster.run("dead-letters", "replay", "--all")
    eventually(lambda: stored_nodes(cluster) == texts.keys(), 30, "the replayed row")
    assert len(cluster.incidents()) == incidents
    assert worker.process.poll() is None


def kernel_envelope(node: str, text: str) -> bytes:
    return b'{"host": "%s", "source": "kernel", "timestamp": 1772442001.5, "message": "%s"}' % (
        node.encode(),
        text.encode(),
    )


def test_the_commands_of_the_operations_guide_run(kafka: Any, clickhouse: Any, make_cluster: MakeCluster) -> None:
    section = OPERATIONS.read_text().partition("\n## Dead letters\n")[2].partition("\n## ")[0]
    commands = [shlex.split(line)[1:] for line in section.partition("```sh\n")[2].partition("```")[0].splitlines()]
    assert {command[1] for command in commands} == {"list", "show", "replay"}
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    cluster.run("migrate")
    store_dead_letter(
        cluster, next(command[2] for command in commands if command[1] == "show"), f"{cluster.raw_topic}/0", 7, 1
    )
    for command in commands:
        cluster.run(*command)
    assert len(records_of(cluster)) == 1


def execute(cluster: Cluster, sql: str) -> None:
    client = connect(cluster.store)
    try:
        client.command(sql)
    finally:
        client.close()


def stored_nodes(cluster: Cluster) -> set[str]:
    client = connect(cluster.store)
    try:
        return {node for (node,) in client.query("SELECT DISTINCT node FROM matches FINAL")}
    finally:
        client.close()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["replay"], 2, "give exactly one of: ids, --reason TEXT, --all"),
        (["replay", "--all", "abc"], 2, "give exactly one of"),
        (["show", "abc", "--raw", "--json"], 2, "exclude each other"),
        (["list", "--since", "yesterday"], 2, "write how long ago, such as 2h"),
        (["list"], 66, "no store here yet"),
        (["list", "--store", "http://127.0.0.1:9/x"], 69, "store is unreachable"),
        (["show", "../x"], 66, "not an id"),
    ],
)
def test_exit_codes(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    place = [] if "--store" in arguments else ["--data-dir", str(tmp_path)]
    done = epicenter("dead-letters", *arguments, *place)
    assert (done.returncode, message in done.stderr.decode()) == (code, True), done.stderr


def test_replay_without_kafka_exits_with_69(clickhouse: Any, kafka: Any, make_cluster: MakeCluster) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn)
    cluster.run("migrate")
    store_dead_letter(cluster, "e" * 16, f"{cluster.raw_topic}/0", 8, 1)
    done = invoke(cluster, "replay", "--all", "--kafka", "127.0.0.1:9")
    assert (done.returncode, done.stderr.startswith(b"epicenter: Kafka is unreachable: 127.0.0.1:9")) == (69, True), (
        done.stderr
    )


def test_dead_letters_of_a_running_epicenter_are_read_through_its_page(tmp_path: Path) -> None:
    log = tmp_path / "lines.jsonl"
    log.write_bytes(b'{"message": "whole", "host": "n1"}\n' + WILD + b"\n")
    place = ["--data-dir", str(tmp_path / "data")]
    run = subprocess.Popen([*EPICENTER, "run", str(log), *place, "--page-port", "0"], stderr=subprocess.PIPE)

    def output_of(*arguments: str) -> bytes:
        done = epicenter("dead-letters", *arguments, *place)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        assert run.stderr
        assert run.stderr.readline().startswith(b"incidents: ")
        (line,) = eventually(lambda: output_of("list", "--json").splitlines(), 30, "the dead letter")
        dead_letter_id = json.loads(line)["dead_letter_id"]
        assert json.loads(line)["source"] == str(log)
        assert output_of("show", dead_letter_id, "--raw") == WILD
    finally:
        run.terminate()
        run.communicate(timeout=30)
    refused = epicenter("dead-letters", "replay", dead_letter_id, *place)
    assert (refused.returncode, b"epicenter run --once FILE" in refused.stderr) == (66, True), refused.stderr
