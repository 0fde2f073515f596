"""`epicenter migrate`: bring the tables up to date, or show what would change and why."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from textwrap import indent, wrap

import click

from epicenter.sinks.clickhouse.client import connect, exists
from epicenter.sinks.clickhouse.dsn import parse_dsn
from epicenter.sinks.clickhouse.logs import RawTopic, create_log_tables, log_statements
from epicenter.sinks.clickhouse.migrate import Migration, Statement, migrate, plan, read_migrations
from epicenter.sinks.clickhouse.roles import create_roles, role_statements
from epicenter.sinks.text.sanitize import sanitized_json
from epicenter.stream.settings import Settings

WIDTH = 110


def migrate_store(
    settings: Settings, only_plan: bool, with_sql: bool, with_logs: bool, with_roles: bool, as_json: bool = False
) -> None:
    """Migrate, or only print the plan; with the tables for raw logs and the roles, if wanted."""
    raw = RawTopic(settings.kafka, settings.raw_topic, f"{settings.prefix}-raw-logs") if with_logs else None
    store = parse_dsn(settings.store_dsn)
    pending = planned(settings.store_dsn) if only_plan else _migrated(settings.store_dsn, raw, with_roles)
    parts: list[tuple[str, Iterable[Statement]]] = [(migration.name, migration.statements) for migration in pending]
    if raw and only_plan:
        parts.append((f"raw logs of {raw.topic}", log_statements(raw)))
    if with_roles and only_plan:
        parts.append(("roles", role_statements(store.database)))
    for name, statements in parts:
        if as_json:
            click.echo(sanitized_json({"name": name, "is_done": not only_plan, "statements": _documents(statements)}))
        else:
            click.echo("\n".join([name, *([_shown(statements, with_sql)] if only_plan else [])]))
    what = f"{len(pending)} migrations {'to do' if only_plan else 'done'}"
    click.echo(what if pending else f"{store.address}: the tables are up to date, nothing to do", err=True)


def planned(dsn: str) -> list[Migration]:
    """The migrations to do. A store that does not exist yet needs all of them, and is not created."""
    if not exists(dsn):
        return read_migrations()
    with closing(connect(dsn)) as client:
        return plan(client)


def _migrated(dsn: str, raw: RawTopic | None, with_roles: bool) -> list[Migration]:
    with closing(connect(dsn)) as client:
        pending = plan(client)
        migrate(client)
        if raw:
            create_log_tables(client, raw)
        if with_roles:
            create_roles(client)
    return pending


def _documents(statements: Iterable[Statement]) -> list[dict[str, str]]:
    return [{"sql": statement.sql, "why": statement.why} for statement in statements]


def _shown(statements: Iterable[Statement], with_sql: bool) -> str:
    """Each statement with its reason, printed once where several have the same."""
    lines, why = list[str](), ""
    for statement in statements:
        if statement.why != why:
            why = statement.why
            lines += ["", *wrap(why, WIDTH, initial_indent="  -- ", subsequent_indent="  -- ")]
        lines.append(indent(f"{statement.sql};" if with_sql else statement.what, "  "))
    return "\n".join([*lines, ""])
