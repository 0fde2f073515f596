"""Raw logs in OpenTelemetry's table: the view over records as shippers send them, on the real engine.

No engine here can read Kafka: a table with the same columns replaces the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.logs import RawTopic, create_log_tables, log_statements
from tests.support.logs import fluent_bit, journald, kernel, python_json, vector

pytestmark = pytest.mark.integration

TOPIC = RawTopic("kafka-1:9092,kafka-2:9092", "logs.raw", "it's ours")
QUEUE_TABLE = """CREATE TABLE raw_logs_queue (raw String, _key String, _timestamp_ms Nullable(DateTime64(3)),
 _topic String, _partition UInt64, _offset UInt64, _error String, _raw_message String) ENGINE = Null"""
AT = datetime(2026, 3, 2, 9, 0, 1, 500000)
RECEIVED = datetime(2026, 3, 2, 9, 30)
COLUMNS = "Timestamp, ServiceName, SeverityText, SeverityNumber, Body, ResourceAttributes"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    client = connect(f"chdb://{tmp_path_factory.mktemp('logs')}/store")
    client.command(QUEUE_TABLE)
    for statement in log_statements(TOPIC):
        if "ENGINE = Kafka" not in statement.sql:
            client.command(statement.sql)
    client.command("ALTER TABLE otel_logs REMOVE TTL")  # the records are of a day long ago
    yield client
    client.close()


def rows_of(client: Client, raw: bytes, error: str = "") -> list[tuple[Any, ...]]:
    """The rows of one message."""
    client.command("TRUNCATE TABLE otel_logs")
    row = [raw, "key-node", RECEIVED, "logs.raw", 3, 7, error, raw if error else b""]
    names = ["raw", "_key", "_timestamp_ms", "_topic", "_partition", "_offset", "_error", "_raw_message"]
    types = ["String", "String", "Nullable(DateTime64(3))", "String", "UInt64", "UInt64", "String", "String"]
    client.insert("raw_logs_queue", [[value] for value in row], names, types, {})
    return client.query(f"SELECT {COLUMNS} FROM otel_logs")


POD = {"k8s.node.name": "n1", "k8s.pod.name": "train-A", "host.name": "n1"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            vector("n1", 1.5, "NCCL WARN bad", "A"),
            (AT, "pytorch", "", 0, "NCCL WARN bad", POD | {"k8s.container.name": "pytorch", "service.name": "pytorch"}),
            id="vector",
        ),
        pytest.param(
            fluent_bit("n1", 1.5, "step 7", "A"),
            (AT, "main", "", 0, "step 7", POD | {"k8s.container.name": "main", "service.name": "main"}),
            id="fluent-bit",
        ),
        pytest.param(
            journald("n1", 1.5, "NVRM: Xid 79"),
            (AT, "kernel", "ERROR", 17, "NVRM: Xid 79", {"host.name": "n1", "service.name": "kernel"}),
            id="journald",
        ),
        pytest.param(
            journald("n1", 1.5, "a\x1b[31mred", "journal"),
            (AT, "python", "ERROR", 17, "a\x1b[31mred", {"host.name": "n1", "service.name": "python"}),
            id="journald-bytes",
        ),
        pytest.param(
            python_json("n1", 1.5, "naïve", "A"),
            (AT, "unknown", "", 0, "naïve", {"host.name": "n1", "service.name": "unknown"}),
            id="python-epoch-and-escapes",
        ),
        pytest.param(
            b'{"ts":1772442001500,"level":"warning","source":"worker","msg":"slow"}',
            (AT, "worker", "WARN", 13, "slow", {"host.name": "key-node", "service.name": "worker"}),
            id="milliseconds-and-the-key",
        ),
        pytest.param(
            b'{"message":"no time here"}',
            (RECEIVED, "unknown", "", 0, "no time here", {"host.name": "key-node", "service.name": "unknown"}),
            id="no-time",
        ),
    ],
)
def test_a_record_becomes_a_row(client: Client, raw: bytes, expected: tuple[Any, ...]) -> None:
    assert rows_of(client, raw) == [expected]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (kernel("n1", 1.5, "NVRM: Xid 79"), kernel("n1", 1.5, "NVRM: Xid 79").decode()),
        (b"plain", "plain"),
        (b"{not json", "{not json"),
        (b'{"message": 7}', "7"),
        (b'{"time":{}}', '{"time":{}}'),
        (b"", ""),
    ],
)
def test_a_record_of_any_shape_becomes_a_row(client: Client, raw: bytes, text: str) -> None:
    ((time, service, _, _, body, attributes),) = rows_of(client, raw)
    assert (time, service, attributes["host.name"], body) == (RECEIVED, "unknown", "key-node", text)


def test_invalid_utf_8_is_stored_unchanged(client: Client) -> None:
    rows_of(client, b"\xff\xfe")
    assert client.query("SELECT hex(Body) FROM otel_logs") == [("FFFE",)]


def test_other_fields_and_the_position_become_attributes(client: Client) -> None:
    rows_of(client, vector("n1", 1.5, "x", "A", restarts=4))
    ((attributes,),) = client.query("SELECT LogAttributes FROM otel_logs")
    assert attributes == {
        "source_type": "kubernetes_logs",
        "stream": "stderr",
        "restarts": "4",
        "kafka.topic": "logs.raw",
        "kafka.partition": "3",
        "kafka.offset": "7",
    }


def test_an_unreadable_message_is_stored_with_the_error(client: Client) -> None:
    assert rows_of(client, b"\x00broken", "Cannot parse input") == []
    found = client.query("SELECT topic, partition, offset, message, error FROM otel_logs_errors")
    assert found == [("logs.raw", 3, 7, "\x00broken", "Cannot parse input")]


def test_the_index_finds_a_word_of_the_text(client: Client) -> None:
    rows_of(client, vector("n1", 1.5, "NVRM: Xid 79 fallen", "A"))
    assert client.query("SELECT count() FROM otel_logs WHERE hasToken(Body, 'fallen')") == [(1,)]


def test_every_statement_is_valid_sql_with_quoted_parameters(client: Client) -> None:
    shown = [
        client.query("SELECT formatQuery({sql:String})", {"sql": statement.sql})[0][0]
        for statement in log_statements(TOPIC)
    ]
    (queue,) = [text for text in shown if "ENGINE = Kafka" in text]
    assert "kafka_broker_list = 'kafka-1:9092,kafka-2:9092'" in queue
    assert "it\\'s ours" in queue


def test_an_embedded_store_refuses_raw_logs(client: Client) -> None:
    with pytest.raises(ConfigError, match="use a ClickHouse server for raw logs"):
        create_log_tables(client, TOPIC)
