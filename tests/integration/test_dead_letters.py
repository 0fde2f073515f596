"""`epicenter dead-letters` on a real broker and a real store: what is listed, shown and sent again."""

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


def tried(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[bytes]:
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
            found += [one for some in (await consumer.getmany(timeout_ms=1000)).values() for one in some]
        return found
    finally:
        await admin.close()
        await consumer.stop()


def test_letters_of_every_hop_are_listed_shown_and_sent_again(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="2")
    cluster.feed([("n1", WILD), ("n1", b""), ("n1", LARGE), ("n1", XID)])
    cluster.feed([("stranger", b"not msgpack")], f"{cluster.name}.matches")
    worker = cluster.start_worker()
    eventually(lambda: len(dead_letters(cluster)) == 4, 60, "four dead letters")

    by_reason = {one["reason"].split(":")[0]: one for one in dead_letters(cluster)}
    assert set(by_reason) == {"not JSON", "empty value", "too large", "no message of ours"}
    kinds = {"not-json", "empty", "too-large", "not-ours"}
    assert {one["kind"] for one in by_reason.values()} == kinds
    assert all(one["received"].startswith("20") and one["replays"] == 0 for one in by_reason.values())
    assert by_reason["too large"]["size_bytes"] == len(LARGE)
    assert dead_letters(cluster, "--reason", "NOT json") == [by_reason["not JSON"]]
    assert dead_letters(cluster, "--source", f"{cluster.name}.matches/") == [by_reason["no message of ours"]]
    assert len(dead_letters(cluster, "--since", "1h", "--limit", "3")) == 3
    assert dead_letters(cluster, "--since", "2999-01-01") == []

    wild = by_reason["not JSON"]["dead_letter_id"]
    assert tried(cluster, "show", wild, "--raw").stdout == WILD
    shown = tried(cluster, "show", wild).stdout.decode()
    assert r'{"message": "\x1b[2J \xff\u202e cut' in shown
    assert shown.isascii()
    document = json.loads(cluster.run("dead-letters", "show", wild[:8], "--json"))
    assert base64.b64decode(document["value_base64"]) == WILD
    assert base64.b64decode(document["key_base64"]) == b"n1"

    before = records_of(cluster)
    told = cluster.run("dead-letters", "replay", wild, by_reason["too large"]["dead_letter_id"])
    assert told.count("sent again as") == 2
    after = records_of(cluster)
    original = next(one for one in before if one.value == WILD)
    (again,) = (one for one in after if one.value == WILD and one.offset != original.offset)
    assert (again.key, again.partition, again.timestamp) == (b"n1", original.partition, original.timestamp)
    place = f"{original.topic}/{original.partition}:{original.offset}".encode()
    assert again.headers == (("epicenter-replay-of", place), ("epicenter-replays", b"1"))
    assert sum(one.value == LARGE for one in after) == 2

    eventually(lambda: len(dead_letters(cluster)) == 6, 60, "new letters for what failed again")
    assert worker.metric("epicenter_dead_letters_total") == 5
    cluster.run("dead-letters", "replay", "--reason", "not json")
    newest = max(records_of(cluster), key=lambda one: (one.value == WILD, one.offset))
    assert newest.headers == (("epicenter-replay-of", place), ("epicenter-replays", b"2"))

    cluster.feed([("n2", LATER_XID)])
    eventually(lambda: {n for one in cluster.incidents() for n in one["nodes"]} == {"n1", "n2"}, 60, "it goes on")


def test_a_cut_letter_without_its_record_is_refused(kafka: Any, clickhouse: Any, make_cluster: MakeCluster) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn)
    gone = make_cluster(kafka.bootstrap, clickhouse.dsn)
    cluster.run("migrate")
    put_dead_letter(cluster, "a" * 16, f"{cluster.raw_topic}/0", 7, MAX_KEPT_DEAD_BYTES + 1)
    put_dead_letter(cluster, "b" * 16, "/var/log/kern.log", 7, 1)
    put_dead_letter(cluster, "c" * 16, f"{gone.raw_topic}/0", 7, 1)
    put_dead_letter(cluster, "d" * 16, f"{cluster.raw_topic}/99", 7, 1)
    put_dead_letter(cluster, "e" * 16, f"{cluster.raw_topic}/0", 8, 1)

    done = tried(cluster, "replay", "--all")
    said = done.stderr.decode()
    assert done.returncode == 66
    assert f"{'a' * 16}: not sent again: only 1 of its {MAX_KEPT_DEAD_BYTES + 1} bytes are kept" in said
    assert "epicenter run --once FILE" in said
    assert "EPICENTER_RAW_TOPIC" in said
    assert "/99 any more" in said
    assert "1 sent again, 4 refused" in said
    assert [one.value for one in records_of(cluster)] == [b"x"]
    assert b"0 sent again, 4 refused" in tried(cluster, "replay", "--all").stderr


def test_a_redacted_letter_is_sent_again_as_it_came(kafka: Any, clickhouse: Any, make_cluster: MakeCluster) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    cluster.feed([("n1", SECRET_AND_WILD)])
    cluster.start_worker()
    (dead_letter,) = eventually(lambda: dead_letters(cluster), 60, "the letter")
    document = json.loads(cluster.run("dead-letters", "show", dead_letter["dead_letter_id"], "--json"))
    assert base64.b64decode(document["value_base64"]) == b'{"message": "PGPASSWORD=[redacted:password] cut'
    assert document["size_bytes"] == len(SECRET_AND_WILD)
    cluster.run("dead-letters", "replay", dead_letter["dead_letter_id"])
    assert [one.value for one in records_of(cluster)] == [SECRET_AND_WILD, SECRET_AND_WILD]


def put_dead_letter(cluster: Cluster, dead_letter_id: str, source: str, offset: int, size_bytes: int) -> None:
    client = connect(cluster.store)
    try:
        client.command(
            "INSERT INTO dead_letters (dead_letter_id, reason, position_source, position_offset, size_bytes, value,"
            " received) SELECT {id:String}, 'not JSON', {source:String}, {offset:Int64}, {size:UInt64}, 'x', now64(9)",
            {"id": dead_letter_id, "source": source, "offset": offset, "size": size_bytes},
        )
    finally:
        client.close()


def test_a_row_that_the_store_refuses_is_a_dead_letter_and_its_neighbours_are_not(
    kafka: Any, clickhouse: Any, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    cluster.run("migrate")
    good, bad = "NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off", "NVRM: Xid (PCI:0000:9a:00): 79, GPU is gone"
    execute(cluster, f"ALTER TABLE matches MODIFY COLUMN text Enum8('{good}' = 1)")
    told = {f"n{number}": bad if number == 7 else good for number in range(40)}
    cluster.feed([("n1", b""), *((node, kernel_envelope(node, text)) for node, text in told.items())])
    worker = cluster.start_worker()
    eventually(lambda: stored_nodes(cluster) == told.keys() - {"n7"}, 60, "the rows of the same message")
    eventually(lambda: len(dead_letters(cluster)) == 2, 30, "the letter beside it")
    (refused,) = dead_letters(cluster, "--source", f"{cluster.name}.matches/")
    assert "Unknown element" in refused["reason"]
    assert worker.metric('epicenter_store_failures_total{kind="refused"}') == 1
    on_nodes = lambda: {node for one in cluster.incidents() for node in one["nodes"]}  # noqa: E731
    eventually(lambda: on_nodes() == told.keys(), 30, "the incidents")
    incidents = len(cluster.incidents())

    execute(cluster, "ALTER TABLE matches MODIFY COLUMN text String")
    cluster.run("dead-letters", "replay", "--all")
    eventually(lambda: stored_nodes(cluster) == told.keys(), 30, "the row, sent again")
    assert len(cluster.incidents()) == incidents
    assert worker.process.poll() is None


def kernel_envelope(node: str, text: str) -> bytes:
    return b'{"host": "%s", "source": "kernel", "timestamp": 1772442001.5, "message": "%s"}' % (
        node.encode(),
        text.encode(),
    )


def test_the_commands_of_the_document_run(kafka: Any, clickhouse: Any, make_cluster: MakeCluster) -> None:
    section = OPERATIONS.read_text().partition("\n## Dead letters\n")[2].partition("\n## ")[0]
    commands = [shlex.split(line)[1:] for line in section.partition("```sh\n")[2].partition("```")[0].splitlines()]
    assert {command[1] for command in commands} == {"list", "show", "replay"}
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn, RAW_PARTITIONS="1")
    cluster.run("migrate")
    put_dead_letter(
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
    ("arguments", "code", "said"),
    [
        (["replay"], 2, "say which: ids, --reason TEXT or --all"),
        (["replay", "--all", "abc"], 2, "say which"),
        (["show", "abc", "--raw", "--json"], 2, "exclude each other"),
        (["list", "--since", "yesterday"], 2, "write how long ago, such as 2h"),
        (["list"], 66, "no store here yet"),
        (["list", "--store", "http://127.0.0.1:9/x"], 69, "store is away"),
        (["show", "../x"], 66, "no dead letter's id"),
    ],
)
def test_exit_codes(arguments: list[str], code: int, said: str, tmp_path: Path) -> None:
    place = [] if "--store" in arguments else ["--data-dir", str(tmp_path)]
    done = epicenter("dead-letters", *arguments, *place)
    assert (done.returncode, said in done.stderr.decode()) == (code, True), done.stderr


def test_kafka_away_is_exit_code_69(clickhouse: Any, kafka: Any, make_cluster: MakeCluster) -> None:
    cluster = make_cluster(kafka.bootstrap, clickhouse.dsn)
    cluster.run("migrate")
    put_dead_letter(cluster, "e" * 16, f"{cluster.raw_topic}/0", 8, 1)
    done = tried(cluster, "replay", "--all", "--kafka", "127.0.0.1:9")
    assert (done.returncode, done.stderr.startswith(b"epicenter: Kafka is away: 127.0.0.1:9")) == (69, True), (
        done.stderr
    )


def test_letters_of_a_running_epicenter_are_read_through_its_page(tmp_path: Path) -> None:
    log = tmp_path / "lines.jsonl"
    log.write_bytes(b'{"message": "whole", "host": "n1"}\n' + WILD + b"\n")
    place = ["--data-dir", str(tmp_path / "data")]
    run = subprocess.Popen([*EPICENTER, "run", str(log), *place, "--page-port", "0"], stderr=subprocess.PIPE)

    def asked(*arguments: str) -> bytes:
        done = epicenter("dead-letters", *arguments, *place)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        assert run.stderr
        assert run.stderr.readline().startswith(b"incidents: ")
        (line,) = eventually(lambda: asked("list", "--json").splitlines(), 30, "the letter")
        dead_letter_id = json.loads(line)["dead_letter_id"]
        assert json.loads(line)["source"] == str(log)
        assert asked("show", dead_letter_id, "--raw") == WILD
    finally:
        run.terminate()
        run.communicate(timeout=30)
    refused = epicenter("dead-letters", "replay", dead_letter_id, *place)
    assert (refused.returncode, b"epicenter run --once FILE" in refused.stderr) == (66, True), refused.stderr
