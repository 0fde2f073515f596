"""Least privilege, if wanted: a role for each thing that speaks to the store. Users and passwords are not ours."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from clickhouse_connect.driver.binding import quote_identifier

from epicenter.rules.errors import ConfigError
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.migrate import Statement, statements_of

FILE: Final = Path(__file__).parent / "optional" / "roles.sql"


def role_statements(database: str) -> list[Statement]:
    """The statements, which may run any number of times: roles are made, and granted what they may do."""
    return list(statements_of(FILE.read_text("utf-8").replace("{database}", quote_identifier(database))))


def make_roles(client: Client) -> None:
    """Make the roles, or bring them up to date.

    Raises:
        ConfigError: the store is embedded, or this user may not make roles.
    """
    if client.is_embedded:
        raise ConfigError([f"{client.address}: an embedded store has no users: roles need a ClickHouse server"])
    for statement in role_statements(client.database):
        client.command(statement.sql)
