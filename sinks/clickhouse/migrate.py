"""Schema migrations: numbered, forward-only SQL files, and a table of those applied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from epicenter.rules.errors import ConfigError, InvariantError
from epicenter.sinks.clickhouse.client import Client

FOLDER: Final = Path(__file__).parent / "migrations"


class Statement(msgspec.Struct, frozen=True):
    """One repeatable statement, with its comment or that of the statement before it."""

    sql: str
    why: str

    @property
    def what(self) -> str:
        """The statement's first line."""
        return self.sql.partition("\n")[0]


class Migration(msgspec.Struct, frozen=True):
    """One file of statements. The next run completes an interrupted migration."""

    version: int
    name: str
    statements: tuple[Statement, ...]


def plan(client: Client) -> list[Migration]:
    """The pending migrations of this store, in order.

    Raises:
        ConfigError: the store is newer than this program.
    """
    known = read_migrations()
    newest = known[-1].version
    applied = _applied(client)
    if applied and max(applied) > newest:
        raise ConfigError(
            [f"{client.address}: schema version {max(applied)} is newer than {newest}: upgrade epicenter"]
        )
    return [migration for migration in known if migration.version not in applied]


def migrate(client: Client) -> list[str]:
    """Apply pending migrations; returns their names. Safe to repeat and to run concurrently."""
    pending = plan(client)
    for migration in pending:
        for statement in migration.statements:
            client.command(statement.sql)
        client.command(
            "INSERT INTO schema_migrations (version, name) SELECT {version:UInt32}, {name:String}",
            {"version": migration.version, "name": migration.name},
        )
    return [migration.name for migration in pending]


def read_migrations(folder: Path = FOLDER) -> list[Migration]:
    """All migrations in `folder`, in order."""
    migrations = [_read(path) for path in sorted(folder.glob("*.sql"))]
    versions = [migration.version for migration in migrations]
    if versions != list(range(1, len(versions) + 1)):
        raise InvariantError(f"{folder}: migrations must be numbered 0001, 0002, …; found {versions}")
    return migrations


def _read(path: Path) -> Migration:
    return Migration(int(path.stem.partition("_")[0]), path.stem, tuple(statements_of(path.read_text("utf-8"))))


def statements_of(text: str) -> Iterator[Statement]:
    """The statements of an SQL file; each ends with a semicolon at a line's end, comments are separate lines."""
    why: list[str] = []
    for part in text.split(";\n"):
        lines = part.strip().splitlines()
        comment = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
        sql = "\n".join(line for line in lines if not line.startswith("--")).strip()
        why = comment or why
        if sql:
            yield Statement(sql, " ".join(why))


def _applied(client: Client) -> set[int]:
    tables = "SELECT count() FROM system.tables WHERE database = {database:String} AND name = 'schema_migrations'"
    if client.query(tables, {"database": client.database})[0][0] == 0:
        return set()
    return {int(version) for (version,) in client.query("SELECT DISTINCT version FROM schema_migrations")}
