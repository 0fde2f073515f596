"""Optional raw logs: ClickHouse's Kafka engine reads the raw topic into OpenTelemetry's table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from epicenter.rules.errors import ConfigError
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.migrate import Statement, statements_of

FILE: Final = Path(__file__).parent / "optional" / "otel_logs.sql"


class RawTopic(msgspec.Struct, frozen=True):
    """The raw topic for ClickHouse: brokers as ClickHouse reaches them, topic and consumer group."""

    broker: str
    topic: str
    group: str


def log_statements(topic: RawTopic) -> list[Statement]:
    """The statements; repeatable."""
    text = FILE.read_text("utf-8")
    for name, value in msgspec.structs.asdict(topic).items():
        text = text.replace(f"{{{name}}}", _quoted(value))
    return list(statements_of(text))


def create_log_tables(client: Client, topic: RawTopic) -> None:
    """Create the tables; the server then starts to read the topic.

    Raises:
        ConfigError: the store is embedded: its engine has no Kafka support.
    """
    if client.is_embedded:
        raise ConfigError(
            [
                f"{client.address}: an embedded store can't read Kafka: use a ClickHouse server for raw logs (--store http://…)"
            ]
        )
    for statement in log_statements(topic):
        client.command(statement.sql)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
