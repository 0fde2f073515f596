"""Inserted rows a second: from a worker's objects to acknowledged rows, and the columns alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter, time
from typing import Any, Final

import msgspec

from epicenter.rules.detect.signal import signal_of
from epicenter.rules.model.ledger import Joined
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.load import load
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.logs import RawTopic, log_statements
from epicenter.sinks.clickhouse.rows import match_rows
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from tests.support.logs import vector
from tests.support.signals import an_xid

BATCHES: Final = 20
BATCH_ROWS: Final = 10_000
LARGE_ROWS: Final = 100_000
VIEW_ROWS: Final = 2_000_000
LOG_COLUMNS: Final = {
    "Timestamp": "DateTime64(9)",
    "SeverityText": "LowCardinality(String)",
    "ServiceName": "LowCardinality(String)",
    "Body": "String",
    "ResourceAttributes": "Map(LowCardinality(String), String)",
    "LogAttributes": "Map(LowCardinality(String), String)",
}
QUEUE: Final = """CREATE TABLE IF NOT EXISTS raw_logs_queue (raw String, _key String,
 _timestamp_ms Nullable(DateTime64(3)), _topic String, _partition UInt64, _offset UInt64, _error String,
 _raw_message String) ENGINE = Null"""


def inserts(client: Client) -> Iterator[dict[str, Any]]:
    """Signals, matches and logs. Each row is distinct and of the current time."""
    sink, rules = ClickHouseSink(client, retry_for_s=0), load()
    matches = list(_matches(BATCHES * BATCH_ROWS))
    spec = rules.spec_of(matches[0])
    joined = [Joined("bench", signal_of(rules, match)) for match in matches]
    yield _measured("signals, from objects", BATCH_ROWS, lambda n: sink.write(signals=_piece(joined, n)))
    of_rules = [(match, spec) for match in matches]
    yield _measured("matches, from objects", BATCH_ROWS, lambda n: sink.write(matches=_piece(of_rules, n)))
    made = match_rows([(match, spec) for match in _matches(LARGE_ROWS)])

    def insert_matches(number: int) -> None:
        columns = [[f"{number}{match_id}" for match_id in made.columns[0]], *made.columns[1:]]
        client.insert(made.table, columns, made.names, made.types, {})

    yield _measured("matches, columns alone", LARGE_ROWS, insert_matches)
    yield from _logs(client)


def _logs(client: Client) -> Iterator[dict[str, Any]]:
    client.command(QUEUE)
    for statement in log_statements(RawTopic("", "", "")):
        if "ENGINE = Kafka" not in statement.sql:
            client.command(statement.sql)
    now_ns = int(time()) * NS_PER_S
    columns: list[list[Any]] = [
        [now_ns + number for number in range(LARGE_ROWS)],
        ["INFO"] * LARGE_ROWS,
        ["pytorch"] * LARGE_ROWS,
        [f"[rank{number % 4096}]: completed step {number} in 5.2 s, loss 2.{number}" for number in range(LARGE_ROWS)],
        [{"host.name": f"gpu-{number % 2000}", "k8s.pod.name": "train-A"} for number in range(LARGE_ROWS)],
        [{"stream": "stderr"}] * LARGE_ROWS,
    ]
    names, types = list(LOG_COLUMNS), list(LOG_COLUMNS.values())
    yield _measured("logs, columns alone", LARGE_ROWS, lambda _: client.insert("otel_logs", columns, names, types, {}))
    raw = vector("gpu-7", time() - 1_772_442_000, "[rank7]: completed step NUMBER in 5.2 s", "A").decode()
    parts = " || toString(number) || ".join(f"'{part}'" for part in raw.split("NUMBER"))
    begun_s = perf_counter()
    client.command(f"INSERT INTO raw_logs_queue (raw, _topic) SELECT {parts}, 'raw' FROM numbers({VIEW_ROWS})")
    yield {"what": "logs, raw records by the view", "rows_per_s": round(VIEW_ROWS / (perf_counter() - begun_s))}


def _measured(what: str, rows: int, write: Callable[[int], None]) -> dict[str, Any]:
    begun_s = perf_counter()
    for number in range(BATCHES):
        write(number)
    rate = BATCHES * rows / (perf_counter() - begun_s)
    return {"what": f"{what}, {rows:,} at once", "rows_per_s": round(rate)}


def _piece(rows: list[Any], number: int) -> list[Any]:
    return rows[number * BATCH_ROWS : (number + 1) * BATCH_ROWS]


def _matches(count: int) -> Iterator[Match]:
    template, now_ns, run = an_xid(79, 0, "bench", job="bench"), int(time()) * NS_PER_S, int(time() * 1000)
    for number in range(count):
        event = msgspec.structs.replace(template.event, event_time_ns=now_ns + number, rank=number % 4096)
        yield msgspec.structs.replace(template, match_id=f"{run:x}{number:x}", event=event)
