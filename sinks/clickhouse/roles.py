"""Optional least-privilege roles, one per client of the store. Users and passwords are managed elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from clickhouse_connect.driver.binding import quote_identifier

from epicenter.rules.errors import ConfigError
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.migrate import Statement, statements_of

FILE: Final = Path(__file__).parent / "optional" / "roles.sql"


def role_statements(database: str) -> list[Statement]:
    """The statements that create roles and grant privileges; repeatable."""
    return list(statements_of(FILE.read_text("utf-8").replace("{database}", quote_identifier(database))))


def create_roles(client: Client) -> None:
    """Create or update the roles.

    Raises:
        ConfigError: the store is embedded, or this user can't create roles.
    """
    if client.is_embedded:
        raise ConfigError([f"{client.address}: an embedded store has no users: use a ClickHouse server for roles"])
    for statement in role_statements(client.database):
        client.command(statement.sql)
