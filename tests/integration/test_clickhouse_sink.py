"""The store for real: the embedded engine in this process, and a server over HTTP."""

from __future__ import annotations

import gc
import re
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from epicenter.rules.errors import ConfigError, RejectedError, TransientError
from epicenter.rules.model.heartbeats import Alive, Step
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.records import Match, Position
from epicenter.sinks.clickhouse import reading
from epicenter.sinks.clickhouse import rows as shapes
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.dead_letters import StoredDeadLetters, dead_letter_of
from epicenter.sinks.clickhouse.errors import StoreInUseError
from epicenter.sinks.clickhouse.migrate import migrate, plan, read_migrations
from epicenter.sinks.clickhouse.named import UnknownIdError, named_incident
from epicenter.sinks.clickhouse.reading import IncidentFilter
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from tests.unit.sinks.clickhouse.test_rows import MINUTE_NS, XidFacts, a_dead_letter, a_match, an_incident
from tests.unit.sinks.clickhouse.test_rows import TABLES as COLUMNS

pytestmark = pytest.mark.integration

TABLES = ("incidents", "incident_revisions", "matches", "liveness", "dead_letters")
INJECTIONS = ("' OR 1=1 --", "\\", "'", "\n", "\x00", "{limit:UInt32}", "%", "_", "é\u202e")

OTHER_PROCESS = """
import sys
from epicenter.sinks.clickhouse.client import connect
client = connect(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
client.close()
print("closed", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for this file: a process can hold one embedded store."""
    return tmp_path_factory.mktemp("store") / "epicenter"


@pytest.fixture(scope="module", params=["embedded", "server"])
def dsn(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "embedded":
        return f"chdb://{folder}"
    parts = urlsplit(request.getfixturevalue("clickhouse").dsn)
    return str(parts._replace(path="/sink_tests").geturl())


@pytest.fixture(scope="module")
def client(dsn: str) -> Iterator[Client]:
    client = connect(dsn)
    migrate(client)
    yield client
    client.close()


@pytest.fixture
def sink(client: Client) -> ClickHouseSink:
    return ClickHouseSink(client, retry_for_s=0)


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """An id for this test alone, since all tests share one store."""
    return stable_id(request.node.nodeid)


def contents(client: Client, table: str, key: str, value: str) -> list[tuple[Any, ...]]:
    return client.query(f"SELECT * FROM {table} FINAL WHERE {key} = {{value:String}}", {"value": value})


def an_own_match(unique: str, time_ns: int = 1_772_442_001_123_456_789, **fields: Any) -> Match:
    match = a_match(time_ns=time_ns, **fields)
    return msgspec.structs.replace(match, match_id=unique)


def test_migrating_again_does_nothing(client: Client) -> None:
    assert plan(client) == []
    assert migrate(client) == []


def test_two_workers_may_migrate_at_once(dsn: str, client: Client) -> None:
    database = f"{client.database}_two"
    client.command(f"DROP DATABASE IF EXISTS {database}")
    marker = "?database=" if client.is_embedded else None
    other = f"{dsn}{marker}{database}" if marker else urlsplit(dsn)._replace(path=f"/{database}").geturl()
    clients = [connect(other) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(migrate, clients))
    assert plan(clients[0]) == []
    tables = {name for (name,) in clients[0].query("SELECT name FROM system.tables WHERE database = currentDatabase()")}
    others = {
        "schema_migrations",
        "acknowledgements",
        "feedback",
        "silences",
        "match_rates",
        "match_rates_from_matches",
        "job_states",
        "unnamed_messages",
    }
    assert tables == {*COLUMNS, *others}
    for worker in clients:
        worker.close()


class Column(list[Any]):
    """A list that weak references can point to."""


def test_inserted_columns_are_freed_without_the_garbage_collector(client: Client, unique: str) -> None:
    rows = shapes.match_rows([(an_own_match(unique), XidFacts())])
    columns = [Column(column) for column in rows.columns]
    watched = [weakref.ref(column) for column in columns]
    gc.disable()
    try:
        client.insert(rows.table, columns, rows.names, rows.types, {})
        del columns
        assert [reference() for reference in watched] == [None] * len(watched)
    finally:
        gc.enable()
    assert len(contents(client, rows.table, "match_id", unique)) == 1


def test_a_newer_schema_is_refused(client: Client) -> None:
    newer = read_migrations()[-1].version + 1
    client.command(
        "INSERT INTO schema_migrations (version, name) SELECT {version:UInt32}, 'future'", {"version": newer}
    )
    try:
        with pytest.raises(ConfigError, match="upgrade epicenter"):
            migrate(client)
    finally:
        client.command("DELETE FROM schema_migrations WHERE name = 'future'")
    assert plan(client) == []


@pytest.mark.parametrize("table", COLUMNS)
def test_the_rows_have_the_tables_columns_and_types(client: Client, table: str) -> None:
    described = {row[0]: (row[1], row[2]) for row in client.query(f"DESCRIBE TABLE {table}")}
    expected = COLUMNS[table]
    for name, kind in expected:
        found = re.sub(r"SimpleAggregateFunction\(\w+, (.*)\)$", r"\1", described[name][0])
        assert found == kind
    assert {name for name, (_, default) in described.items() if default != "MATERIALIZED"} == {n for n, _ in expected}


def test_a_written_incident_is_read_back_unchanged(client: Client, sink: ClickHouseSink, unique: str) -> None:
    incident = an_incident(unique, revision=3)
    sink.write(incidents=[incident])
    assert named_incident(client, unique) == incident
    typed = "SELECT class, nodes, root_rank, toUnixTimestamp64Nano(first_seen), confidence FROM incidents FINAL"
    assert client.query(f"{typed} WHERE incident_id = {{id:String}}", {"id": unique}) == [
        ("gpu.fell_off_bus", ["gpu-001", "gpu-002"], None, 1_772_442_001_123_456_789, 0.9)
    ]


def test_the_same_batch_twice_changes_nothing(client: Client, sink: ClickHouseSink, unique: str) -> None:
    dead_letter = msgspec.structs.replace(a_dead_letter(b"\xff\x00\r\n'\\", b"\xfe"), dead_letter_id=unique)
    batch: dict[str, Any] = {
        "incidents": [an_incident(unique, 1), an_incident(unique, 2)],
        "matches": [(an_own_match(unique), XidFacts())],
        "heartbeats": [
            Step(MINUTE_NS, "east", unique, "gpu-001", 7),
            Alive(MINUTE_NS + 1, "east", unique, "gpu-001"),
        ],
        "dead_letters": [dead_letter],
    }
    keys = dict(zip(TABLES, ("incident_id", "incident_id", "match_id", "job", "dead_letter_id"), strict=True))
    sink.write(**batch)
    once = {table: contents(client, table, key, unique) for table, key in keys.items()}
    sink.write(**batch)
    assert {table: contents(client, table, key, unique) for table, key in keys.items()} == once
    assert [len(once[table]) for table in TABLES] == [1, 2, 1, 1, 1]


def test_a_retried_insert_writes_no_second_part(client: Client, sink: ClickHouseSink, unique: str) -> None:
    for _ in range(3):
        sink.write(matches=[(an_own_match(unique), XidFacts())])
    raw = client.query("SELECT count() FROM matches WHERE match_id = {id:String}", {"id": unique})
    assert raw == [(1,)]


def test_an_older_revision_that_arrives_late_changes_nothing(client: Client, sink: ClickHouseSink, unique: str) -> None:
    sink.write(incidents=[an_incident(unique, 5, "new")])
    sink.write(incidents=[an_incident(unique, 4, "old")])
    incident = named_incident(client, unique)
    assert incident is not None
    assert (incident.revision, incident.title) == (5, "new")


def test_replayed_heartbeats_in_another_grouping_change_nothing(
    client: Client, sink: ClickHouseSink, unique: str
) -> None:
    heartbeats = [
        Step(MINUTE_NS + n, "east", unique, "gpu-001", n) if n % 2 else Alive(MINUTE_NS + n, "east", unique, "gpu-001")
        for n in range(6)
    ]
    sink.write(heartbeats=heartbeats)
    columns = "SELECT toUnixTimestamp64Nano(first_event_time), toUnixTimestamp64Nano(last_event_time), last_step"
    query = f"{columns} FROM liveness FINAL WHERE job = {{job:String}}"
    once = client.query(query, {"job": unique})
    assert once == [(MINUTE_NS, MINUTE_NS + 5, 5)]
    for heartbeat in heartbeats:
        sink.write(heartbeats=[heartbeat])
    sink.write(heartbeats=heartbeats[1:4])
    assert client.query(query, {"job": unique}) == once


def test_dead_letter_bytes_are_stored_unchanged(client: Client, sink: ClickHouseSink, unique: str) -> None:
    value = bytes(range(256)) * 5
    dead_letters = [
        msgspec.structs.replace(a_dead_letter(value, None), dead_letter_id=unique),
        msgspec.structs.replace(a_dead_letter(b"", b"\x80"), dead_letter_id=unique + "b"),
    ]
    sink.write(dead_letters=dead_letters)
    query = "SELECT hex(value), hex(key) FROM dead_letters FINAL WHERE startsWith(dead_letter_id, {id:String})"
    query += " ORDER BY dead_letter_id"
    assert client.query(query, {"id": unique}) == [(value.hex().upper(), None), ("", "80")]


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("corrupt batch: offsets 3 to 5: bad checksum", "corrupt-batch"),
        ("not JSON: unexpected character: line 1 column 2 (char 1)", "not-json"),
        ("page: 404 Not Found", ""),
    ],
)
def test_an_old_dead_letter_without_a_kind_gets_it_from_its_reason(
    client: Client, unique: str, reason: str, kind: str
) -> None:
    columns = "dead_letter_id, reason, position_source, position_offset, size_bytes, value, received"
    values = "{id:String}, {reason:String}, 'logs.raw/0', 3, 1, 'x', now64(9)"
    client.command(
        f"INSERT INTO dead_letters ({columns}) SELECT {values}",
        {"id": unique, "reason": reason},
    )
    document = StoredDeadLetters(client).get(unique)
    assert document and document["kind"] == dead_letter_of(document).kind == kind


def test_log_text_is_never_interpreted(client: Client, sink: ClickHouseSink, unique: str) -> None:
    for number, text in enumerate(INJECTIONS):
        match = an_own_match(f"{unique}{number}", text=text)
        sink.write(matches=[(msgspec.structs.replace(match, fields={text: text}), XidFacts())])
    found = client.query(
        "SELECT text, fields FROM matches FINAL WHERE startsWith(match_id, {id:String}) ORDER BY match_id",
        {"id": unique},
    )
    assert found == [(text, {text: text}) for text in INJECTIONS]


def test_old_logs_over_many_months_are_one_batch(client: Client, sink: ClickHouseSink, unique: str) -> None:
    months = [(an_own_match(f"{unique}{n}", time_ns=n * 32 * 86_400 * 10**9), XidFacts()) for n in range(150)]
    sink.write(matches=months)
    query = "SELECT count() FROM matches FINAL WHERE startsWith(match_id, {id:String})"
    assert client.query(query, {"id": unique}) == [(150,)]


def test_times_beyond_the_calendar_are_accepted(client: Client, sink: ClickHouseSink, unique: str) -> None:
    sink.write(
        matches=[(an_own_match(unique, time_ns=10**30), XidFacts())],
        heartbeats=[Alive(10**30, "east", unique, "gpu-001")],
    )
    assert len(contents(client, "matches", "match_id", unique)) == 1
    assert len(contents(client, "liveness", "job", unique)) == 1


def test_incidents_are_listed_newest_first_without_merged_ones(
    client: Client, sink: ClickHouseSink, unique: str
) -> None:
    times = {"a": "2096-03-02T09:00:01.000000001Z", "b": "2096-03-02T09:00:01.000000002Z", "c": "2096-01-01T00:00:00Z"}
    for letter, time in times.items():
        incident = msgspec.structs.replace(an_incident(unique + letter), last_seen=time, status="over", cluster=unique)
        merged = unique + "a" if letter == "b" else ""
        sink.write(incidents=[msgspec.structs.replace(incident, merged_into=merged)])
    opened = msgspec.structs.replace(an_incident(unique + "d"), last_seen=times["c"], status="open", cluster=unique)
    sink.write(incidents=[opened])

    def letters(limit: int, status: str = "") -> str:
        found = reading.find_incidents(client, IncidentFilter(status=status, cluster=unique), limit)
        return "".join(incident.incident_id.removeprefix(unique) for incident in found)

    assert [letters(9, "over"), letters(1, "over"), letters(9), letters(1)] == [
        "bac",
        "b",
        "dac",
        "d",
    ]
    assert letters(9, "over' OR ''='") == ""


def test_an_incident_is_found_by_a_unique_id_prefix(client: Client, sink: ClickHouseSink, unique: str) -> None:
    sink.write(incidents=[an_incident(unique + "0"), an_incident(unique + "01"), an_incident(unique + "1")])

    def found(incident_id: str) -> str | None:
        try:
            return named_incident(client, incident_id).incident_id
        except UnknownIdError:
            return None

    assert found(unique + "0") == unique + "0"
    assert found(unique + "01") == unique + "01"
    assert found(unique) is None
    assert found("") is None
    assert [found(text) for text in INJECTIONS] == [None] * len(INJECTIONS)


def test_an_unknown_column_is_refused_for_good(client: Client) -> None:
    with pytest.raises(RejectedError):
        client.insert("matches", [["x"]], ["nope"], ["String"], {})


def test_an_unknown_table_suggests_migrate(client: Client) -> None:
    with pytest.raises(ConfigError, match="epicenter migrate"):
        client.query("SELECT * FROM nope")


def test_a_value_of_the_wrong_type_is_refused_for_good(client: Client) -> None:
    with pytest.raises(RejectedError):
        client.insert("matches", [["x"]], ["position_offset"], ["Int64"], {})


def test_a_store_open_in_another_process_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "owned"
    command = [sys.executable, "-c", OTHER_PROCESS, f"chdb://{store}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin and other.stdout
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StoreInUseError) as raised:
            connect(f"chdb://{store}")
        other.kill()
        assert other.wait(60) == -signal.SIGKILL
    after = subprocess.run(command, input="\n\n", capture_output=True, text=True, timeout=60)
    assert after.stdout == "open\nclosed\n"
    message = str(raised.value)
    assert str(store) in message
    assert f"process {other.pid}" in message
    assert "local page" in message and "stop that process" in message


def test_a_store_is_free_again_after_close(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OTHER_PROCESS, f"chdb://{tmp_path}/freed"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdin and first.stdout
        assert first.stdout.readline() == "open\n"
        print(file=first.stdin, flush=True)
        assert first.stdout.readline() == "closed\n"
        second = subprocess.run(command, input="\n\n", capture_output=True, text=True, timeout=60)
        assert second.stdout == "open\nclosed\n"
        print(file=first.stdin, flush=True)


@pytest.mark.parametrize("dsn", ["embedded"], indirect=True, scope="module")
def test_a_second_embedded_store_in_one_process_is_refused(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="another embedded store"):
        connect(f"chdb://{tmp_path}/second")


def test_a_store_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="can't be used as the store's folder"):
        connect(f"chdb://{tmp_path}/file/store")


def test_a_closed_client_refuses_queries(dsn: str, client: Client) -> None:
    closed = connect(dsn)
    closed.close()
    with pytest.raises(TransientError, match="closed"):
        closed.query("SELECT 1")


def test_a_position_may_be_a_file(client: Client, sink: ClickHouseSink, unique: str) -> None:
    match = an_own_match(unique)
    event = msgspec.structs.replace(match.event, position=Position("/var/log/kern.log", 1))
    sink.write(matches=[(msgspec.structs.replace(match, event=event), XidFacts())])
    query = "SELECT position_source, position_offset FROM matches FINAL WHERE match_id = {id:String}"
    assert client.query(query, {"id": unique}) == [("/var/log/kern.log", 1)]
