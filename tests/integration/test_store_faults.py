"""Faults of a store: each is reported in one line with a remedy, and damages nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from deploy.dev.clickhouse import DevClickHouse, User, dev_clickhouse
from deploy.dev.process import EPICENTER, free_ports
from epicenter.rules.errors import ConfigError, TransientError
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate, plan, read_migrations
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.written_day import a_day, rows_of
from tests.unit.sinks.clickhouse.test_rows import TABLES, XidFacts, a_match, an_incident

pytestmark = pytest.mark.integration

ADMIN, READER = User("admin", "of all"), User("reader", "secret", may_write=False)
STOPS_AFTER = """
import os, signal, sys
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.migrate import read_migrations
client, after = connect(sys.argv[1]), int(sys.argv[2])
statements = [statement for migration in read_migrations() for statement in migration.statements]
for statement in statements[:after]:
    client.command(statement.sql)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevClickHouse]:
    """A server that requires names and passwords."""
    with dev_clickhouse(tmp_path_factory.mktemp("guarded"), [ADMIN, READER]) as server:
        yield server


def as_user(server: DevClickHouse, user: User, database: str = "epicenter") -> str:
    host = urlsplit(server.dsn).netloc
    return f"http://{user.name}:{user.password.replace(' ', '%20')}@{host}/{database}"


def epicenter(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*EPICENTER, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def failure_of(store: str, *command: str) -> tuple[int, str]:
    """Exit code and message of a command on this store; the message has no traceback and no password."""
    done = epicenter(*(command or ("migrate",)), "--store", store)
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr + done.stdout
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.returncode, done.stderr


def test_an_unreachable_store_exits_with_69(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    code, text = failure_of(f"http://reader:secret@127.0.0.1:{port}/epicenter")
    assert code == 69
    assert f"127.0.0.1:{port}" in text and "refused" in text


def test_a_wrong_password_exits_with_78(guarded: DevClickHouse) -> None:
    code, text = failure_of(as_user(guarded, User("admin", "secret")))
    assert code == 78
    assert "check the user and the password" in text


def test_a_read_only_user_is_refused_with_the_missing_grants(guarded: DevClickHouse) -> None:
    assert epicenter("migrate", "--store", as_user(guarded, ADMIN, "granted")).returncode == 0
    client = connect(as_user(guarded, READER, "granted"))
    assert migrate(client) == []
    with pytest.raises(ConfigError, match="grant it SELECT, INSERT, CREATE and ALTER"):
        ClickHouseSink(client).write(matches=[(a_match(), XidFacts())])
    client.close()
    assert failure_of(as_user(guarded, READER, "granted"))[0] == 0
    code, text = failure_of(as_user(guarded, READER, "not_there"))
    assert (code, "grant it" in text) == (78, True)


def test_a_newer_schema_requires_an_upgrade(guarded: DevClickHouse) -> None:
    store = as_user(guarded, ADMIN, "newer")
    client = connect(store)
    migrate(client)
    client.command("INSERT INTO schema_migrations (version, name) SELECT 999, 'future'")
    client.close()
    for command in (("migrate",), ("migrate", "--plan"), ("check",)):
        done = epicenter(*command, "--store", store)
        assert "schema version 999" in done.stdout + done.stderr
        assert "upgrade epicenter" in done.stdout + done.stderr
        assert done.returncode in (1, 78)


def test_the_plan_shows_statements_with_reasons_until_everything_is_done(guarded: DevClickHouse) -> None:
    store = as_user(guarded, ADMIN, "planned")
    planned = epicenter("migrate", "--plan", "--store", store)
    assert "  CREATE TABLE IF NOT EXISTS signals\n" in planned.stdout
    assert "  -- One row a signal, with the incident that it went into." in planned.stdout
    assert f"{len(read_migrations())} migrations to do" in planned.stderr
    in_full = epicenter("migrate", "--sql", "--store", store).stdout
    assert "ORDER BY (incident_id, event_time, signal_id)" in in_full
    assert epicenter("migrate", "--store", store).stdout.split() == [migration.name for migration in read_migrations()]
    for arguments in (("migrate",), ("migrate", "--plan")):
        done = epicenter(*arguments, "--store", store)
        assert (done.returncode, done.stdout) == (0, "")
        assert "up to date, nothing to do" in done.stderr


def test_raw_logs_of_an_embedded_store_are_refused(tmp_path: Path) -> None:
    done = epicenter("migrate", "--with-logs", "--store", f"chdb://{tmp_path}/store")
    assert done.returncode == 78
    assert "use a ClickHouse server for raw logs" in done.stderr
    assert "Traceback" not in done.stderr
    shown = epicenter("migrate", "--plan", "--with-logs", "--kafka", "k:9092", "--store", f"chdb://{tmp_path}/store")
    assert "CREATE TABLE IF NOT EXISTS otel_logs\n" in shown.stdout


STATEMENTS = sum(len(migration.statements) for migration in read_migrations())


@pytest.mark.parametrize("after", [1, 9, STATEMENTS])
def test_a_killed_migration_is_finished_by_the_next_run(tmp_path: Path, after: int) -> None:
    store = f"chdb://{tmp_path}/store"
    killed = subprocess.run([sys.executable, "-c", STOPS_AFTER, store, str(after)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    done = epicenter("migrate", "--store", store)
    assert (done.returncode, done.stderr) == (0, f"{len(read_migrations())} migrations done\n")
    assert "nothing to do" in epicenter("migrate", "--store", store).stderr
    logs = tmp_path / "kern.log"
    logs.write_text("2026-03-02T09:00:01.000000+00:00 n1 kernel: [8005.2] NVRM: Xid (PCI:0000:9a:00): 79, GPU lost\n")
    assert epicenter("run", "--once", logs, "--store", store, "--data-dir", tmp_path / "data").returncode == 0
    assert '"class":"xid-79"' in epicenter("incidents", "list", "--json", "--store", store).stdout.replace(" ", "")


def test_a_migration_of_a_filled_store_loses_nothing(guarded: DevClickHouse) -> None:
    """A store with rows of the first two migrations gets the others."""
    client = connect(as_user(guarded, ADMIN, "grown"))
    early, later = read_migrations()[:2], read_migrations()[2:]
    for migration in early:
        for statement in migration.statements:
            client.command(statement.sql)
        client.command(f"INSERT INTO schema_migrations (version, name) SELECT {migration.version}, '{migration.name}'")
    client.command("INSERT INTO incidents (incident_id, revision, title) SELECT 'old', 3, 'old title'")
    assert [migration.version for migration in plan(client)] == [migration.version for migration in later]
    migrate(client)
    ClickHouseSink(client).write(incidents=[an_incident("new")])
    found = client.query("SELECT incident_id, title, words != '' FROM incidents FINAL ORDER BY incident_id")
    assert found == [("new", "GPU fell off the bus", True), ("old", "old title", False)]
    client.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 96 << 20) as disk:
        yield disk


def refusal(client: Client, piece: dict[str, Any]) -> str:
    """The message of a failed write; empty after a successful one."""
    try:
        ClickHouseSink(client, retry_for_s=0).write(**piece)
    except TransientError as error:
        return str(error)
    return ""


def test_a_store_that_was_begun_on_a_full_disk_is_made_once_there_is_room(disk: SmallDisk) -> None:
    make = ("migrate", "--store", f"chdb://{disk.folder}/store")
    disk.fill()
    refused = epicenter(*make)
    assert refused.returncode == 69
    assert refused.stderr == f"epicenter: chdb://{disk.folder}/store: the disk of the store is full: free some space\n"
    disk.free()
    assert epicenter(*make).returncode == 0


def test_nothing_is_lost_while_the_disk_is_full(disk: SmallDisk) -> None:
    with dev_clickhouse(disk.folder) as server:
        client = connect(server.dsn)
        migrate(client)
        sink = ClickHouseSink(client, retry_for_s=0)
        first, *others = (piece for piece in a_day() if any(piece.values()))
        sink.write(**first)
        before = rows_of(client, list(TABLES))
        disk.fill()
        text = refusal(client, others[0])
        assert ("space" in text.lower() and len(text.splitlines()) == 1) == disk.is_own
        disk.free()
        remaining = rows_of(client, list(TABLES))
        assert all(row in remaining[table] for table, rows in before.items() for row in rows)
        for piece in (first, *others):
            sink.write(**piece)
        stored = rows_of(client, list(TABLES))
        assert all(stored[table] for table in ("matches", "signals", "progress", "incidents"))
        client.close()
