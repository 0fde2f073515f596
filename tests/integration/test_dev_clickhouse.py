"""ClickHouse over HTTP as clickhouse-connect uses it; the same tests run against a real server and over chDB."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from deploy.dev.clickhouse import DevClickHouse, dev_clickhouse
from tests.support.servers import ClickHouse
from tests.support.small_disk import small_disk

ROWS = 5_000
COLUMNS = ["id", "version", "node", "opened_at", "body"]
TABLE = """
CREATE TABLE {table} (
    id UInt64, version UInt32, node LowCardinality(String), opened_at DateTime64(9, 'UTC'), body String
) ENGINE = ReplacingMergeTree(version) ORDER BY id SETTINGS non_replicated_deduplication_window = 100
"""

pytestmark = pytest.mark.integration


def connect(dsn: str, **options: Any) -> Any:
    return clickhouse_connect.get_client(dsn=dsn, autogenerate_session_id=False, **options)


def columns(version: int = 1) -> list[list[Any]]:
    """`ROWS` rows, column by column; bodies hold what breaks a careless parser."""
    opened_at = datetime(2026, 11, 21, 1, 2, 3, 456789, tzinfo=UTC)
    nodes = [f"node{number % 7:04}" for number in range(ROWS)]
    bodies = [f"v{version}\n\nline {number}; it's \\ \x00" for number in range(ROWS)]
    return [list(range(ROWS)), [version] * ROWS, nodes, [opened_at] * ROWS, bodies]


@pytest.fixture
def client(clickhouse: ClickHouse) -> Iterator[Any]:
    with connect(clickhouse.dsn) as client:
        yield client


@pytest.fixture
def table(client: Any) -> str:
    """A new, empty table in a new database."""
    database = f"d_{uuid4().hex}"
    client.command(f"CREATE DATABASE {database}")
    client.command(TABLE.format(table=f"{database}.incidents"))
    return f"{database}.incidents"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[DevClickHouse]:
    server = DevClickHouse(tmp_path)
    server.start()
    yield server
    server.stop()


def test_the_server_answers_a_ping_with_its_version(client: Any) -> None:
    assert client.ping()
    assert int(client.server_version.split(".")[0]) >= 26
    assert client.command("SELECT currentDatabase()") == client.database


@pytest.mark.parametrize("compress", [False, "lz4", "zstd", "gzip"])
def test_inserted_columns_are_read_back_unchanged(clickhouse: ClickHouse, table: str, compress: Any) -> None:
    with connect(clickhouse.dsn, compress=compress) as client:
        summary = client.insert(table, columns(), column_names=COLUMNS, column_oriented=True)
        assert summary.written_rows == ROWS
        result = client.query(f"SELECT * FROM {table} ORDER BY id", tz_mode="aware")
        assert result.column_names == tuple(COLUMNS)
        assert [list(column) for column in result.result_columns] == columns()


def test_the_newest_version_replaces_the_older_one(client: Any, table: str) -> None:
    for version in (2, 1):
        client.insert(table, columns(version), column_names=COLUMNS, column_oriented=True)
    assert client.query(f"SELECT count(), min(version), max(version) FROM {table} FINAL").first_row == (ROWS, 2, 2)


def test_inserts_with_the_same_token_are_stored_once(client: Any, table: str) -> None:
    for token in ("first", "first", "second"):
        settings = {"insert_deduplication_token": token, "async_insert": 0}
        client.insert(table, columns(), column_names=COLUMNS, column_oriented=True, settings=settings)
    assert client.command(f"SELECT count() FROM {table}") == 2 * ROWS


def test_the_server_binds_the_parameters(client: Any, table: str) -> None:
    client.insert(table, columns(), column_names=COLUMNS, column_oriented=True)
    body = columns()[-1][42]
    found = client.query(
        f"SELECT id FROM {table} WHERE body = {{body:String}} AND id IN {{ids:Array(UInt64)}}",
        parameters={"body": body, "ids": [41, 42]},
    )
    assert found.result_rows == [(42,)]


def test_a_setting_lasts_for_its_query_only(client: Any) -> None:
    setting = "SELECT toUInt64(getSetting('max_threads'))"
    assert client.query(setting, settings={"max_threads": 3}).first_row == (3,)
    assert client.query(setting).first_row != (3,)


def test_results_have_the_requested_format(client: Any) -> None:
    assert client.raw_query("SELECT 1 AS one, 'a' AS two", fmt="JSONEachRow") == b'{"one":1,"two":"a"}\n'


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("SELECT 1 FROM nowhere", 60, "UNKNOWN_TABLE"),
        ("SELECT FROM WHERE", 62, "SYNTAX_ERROR"),
        ("SELECT 1; SELECT 2", 62, "Multi-statements are not allowed"),
        ("SELECT throwIf(1, 'the reason')", 395, "the reason"),
    ],
)
def test_a_refused_query_raises_with_the_servers_message(client: Any, query: str, code: int, message: str) -> None:
    with pytest.raises(DatabaseError, match=message) as caught:
        client.command(query)
    assert caught.value.code == code


def test_a_refused_insert_raises_and_the_next_one_works(client: Any, table: str) -> None:
    with pytest.raises(DatabaseError, match="UNKNOWN_SETTING"):
        client.insert(table, columns(), column_names=COLUMNS, column_oriented=True, settings={"no_such_setting": "1"})
    with pytest.raises(DatabaseError, match=r"Code: \d+"):
        client.raw_insert(table, COLUMNS, b"not a native block", fmt="Native")
    client.insert(table, columns(), column_names=COLUMNS, column_oriented=True)
    assert client.command(f"SELECT count() FROM {table}") == ROWS


def test_an_unknown_database_is_refused(clickhouse: ClickHouse) -> None:
    with pytest.raises(DatabaseError, match="UNKNOWN_DATABASE"):
        connect(clickhouse.dsn, database="nowhere")


async def test_the_async_client_works_too(clickhouse: ClickHouse, table: str) -> None:
    async with await clickhouse_connect.get_async_client(dsn=clickhouse.dsn) as client:
        await client.insert(table, columns(), column_names=COLUMNS, column_oriented=True)
        result = await client.query(f"SELECT count() FROM {table} WHERE id < {{id:UInt64}}", parameters={"id": 10})
        assert result.first_row == (10,)
        with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
            await client.query("SELECT 1 FROM nowhere")


def test_large_parameters_are_accepted_as_a_form(clickhouse: ClickHouse) -> None:
    with connect(clickhouse.dsn, form_encode_query_params=True) as client:
        result = client.query("SELECT length({text:String})", parameters={"text": "x" * 100_000})
        assert result.first_row == (100_000,)


def test_an_insert_statement_is_accepted_in_the_query_string(client: Any, table: str) -> None:
    block = gzip.compress(b"1,1,n,2026-11-21 00:00:00,a\n2,1,n,2026-11-21 00:00:00,b\n")
    client.raw_insert(table, COLUMNS, block, fmt="CSV", compression="gzip")
    client.command(f"INSERT INTO {table} (id, body) VALUES (3, 'c\n\nd')")
    assert client.query(f"SELECT body FROM {table} ORDER BY id").result_columns == [["a", "b", "c\n\nd"]]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_keeps_the_rows(own_server: DevClickHouse, end: str) -> None:
    with connect(own_server.dsn) as client:
        client.command(TABLE.format(table="incidents"))
        client.insert("incidents", columns(), column_names=COLUMNS, column_oriented=True)
    first_pid = own_server.pid
    getattr(own_server, end)()
    own_server.start()
    assert own_server.pid != first_pid
    with connect(own_server.dsn) as client:
        assert client.command("SELECT count() FROM incidents") == ROWS


def test_inserts_are_refused_while_the_disk_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64 << 20) as disk:
        if not disk.is_own:
            pytest.skip("no disk can be mounted here")
        with dev_clickhouse(disk.folder) as server, connect(server.dsn) as client:
            client.command("CREATE TABLE noise (id UInt64, body String CODEC(NONE)) ENGINE = MergeTree ORDER BY id")

            def insert() -> None:
                client.insert("noise", [list(range(1_000)), ["x" * 500] * 1_000], column_oriented=True)

            insert()
            disk.fill()
            with pytest.raises(DatabaseError, match="NOT_ENOUGH_SPACE"):
                insert()
            disk.free()
            insert()
            assert client.command("SELECT count() FROM noise") == 2_000


def test_an_insert_may_have_its_own_settings(client: Any, table: str) -> None:
    client.command(f"INSERT INTO {table} (id, body) SETTINGS max_insert_threads = 1 FORMAT CSV", data="7,seven\n")
    assert client.query(f"SELECT id, body FROM {table}").result_rows == [(7, "seven")]


def test_the_headers_are_those_of_the_server(own_server: DevClickHouse) -> None:
    address = own_server.dsn.rpartition("/")[0]
    with urlopen(Request(f"{address}/?query_id=q1", data=b"SELECT 1 AS one FORMAT JSONEachRow"), timeout=10) as reply:
        assert reply.read() == b'{"one":1}\n'
        assert reply.headers["X-ClickHouse-Query-Id"] == "q1"
        assert reply.headers["X-ClickHouse-Format"] == "JSONEachRow"
        assert reply.headers["X-ClickHouse-Timezone"]
        assert '"read_rows":"1"' in reply.headers["X-ClickHouse-Summary"]
