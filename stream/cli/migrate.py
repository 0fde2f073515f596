"""`epicenter migrate`: bring the tables up to date, or show what would change and why."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import indent, wrap

import click

from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.logs import RawTopic, create_log_tables, log_statements
from epicenter.sinks.clickhouse.migrate import Statement, migrate, plan
from epicenter.sinks.clickhouse.roles import create_roles, role_statements
from epicenter.stream.settings import Settings

WIDTH = 110


def migrate_store(settings: Settings, only_plan: bool, with_sql: bool, with_logs: bool, with_roles: bool) -> None:
    """Migrate, or only print the plan; with the tables for raw logs and the roles, if wanted."""
    raw = RawTopic(settings.kafka, settings.raw_topic, f"{settings.prefix}-raw-logs") if with_logs else None
    client = connect(settings.store_dsn)
    try:
        pending = plan(client)
        if not only_plan:
            migrate(client)
            if raw:
                create_log_tables(client, raw)
            if with_roles:
                create_roles(client)
    finally:
        client.close()
    for migration in pending:
        click.echo(migration.name)
        if only_plan:
            click.echo(_shown(migration.statements, with_sql))
    if raw and only_plan:
        click.echo(f"raw logs of {raw.topic}\n{_shown(log_statements(raw), with_sql)}")
    if with_roles and only_plan:
        click.echo(f"roles\n{_shown(role_statements(client.database), with_sql)}")
    what = f"{len(pending)} migrations {'to do' if only_plan else 'done'}"
    click.echo(what if pending else f"{client.address}: the tables are up to date, nothing to do", err=True)


def _shown(statements: Iterable[Statement], with_sql: bool) -> str:
    """Each statement with its reason, printed once where several have the same."""
    lines, why = list[str](), ""
    for statement in statements:
        if statement.why != why:
            why = statement.why
            lines += ["", *wrap(why, WIDTH, initial_indent="  -- ", subsequent_indent="  -- ")]
        lines.append(indent(f"{statement.sql};" if with_sql else statement.what, "  "))
    return "\n".join([*lines, ""])
