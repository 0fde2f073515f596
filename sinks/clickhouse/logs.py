"""Raw logs, if wanted: read from the raw topic by ClickHouse's own Kafka engine, in OpenTelemetry's table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from epicenter.rules.errors import ConfigError
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.migrate import Statement, statements_of

FILE: Final = Path(__file__).parent / "optional" / "otel_logs.sql"


class RawTopic(msgspec.Struct, frozen=True):
    """Where ClickHouse finds the raw logs: the brokers as it can reach them, the topic, a consumer group of its own."""

    broker: str
    topic: str
    group: str


def log_statements(topic: RawTopic) -> list[Statement]:
    """The statements, which may run any number of times."""
    text = FILE.read_text("utf-8")
    for name, value in msgspec.structs.asdict(topic).items():
        text = text.replace(f"{{{name}}}", _quoted(value))
    return list(statements_of(text))


def keep_logs(client: Client, topic: RawTopic) -> None:
    """Make the tables, from which moment on the server reads the topic.

    Raises:
        ConfigError: the store is embedded; its engine has no Kafka in it.
    """
    if client.is_embedded:
        raise ConfigError(
            [
                f"{client.address}: an embedded store can't read Kafka: raw logs need a ClickHouse server (--store http://…)"
            ]
        )
    for statement in log_statements(topic):
        client.command(statement.sql)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
