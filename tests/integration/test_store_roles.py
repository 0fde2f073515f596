"""The roles of roles.sql under ClickHouse's own access control: each service may do its work, and little else.

chDB has no roles, but reads the grants of its only user from a file: so each role's grants are tested with the real
queries of its service.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from deploy.dev.clickhouse import DATABASE, dev_clickhouse
from epicenter.rules.errors import ConfigError
from epicenter.rules.model.records import Position
from epicenter.sinks.clickhouse import operator_actions
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.dead_letters import Replay, StoredDeadLetters
from epicenter.sinks.clickhouse.migrate import migrate, read_migrations, statements_of
from epicenter.sinks.clickhouse.roles import create_roles, role_statements
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.sinks.evidence.questions import QUESTIONS
from epicenter.sinks.page import Feed, page
from epicenter.sinks.page.dead_letters import dead_letter_routes
from epicenter.stream.cli.migrate import migrate_store
from epicenter.stream.settings import Settings
from tests.support.written_day import a_day

pytestmark = pytest.mark.integration
SECURITY = Path(__file__).parents[2] / "docs/security.md"

FOR_CHDB = ("GRANT SHOW DATABASES ON default.*", "GRANT CREATE TEMPORARY TABLE, FILE ON *.*")
"""chDB runs USE where a server does not, and writes blocks through a file."""


def grants_of(role: str) -> list[str]:
    """The grants of a role, without the grantee."""
    found = [
        re.fullmatch(rf"(GRANT .*)\s+TO {role}", statement.sql, re.DOTALL) for statement in role_statements(DATABASE)
    ]
    return [grant[1] for grant in found if grant]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store with tables, and a day in them."""
    folder = tmp_path_factory.mktemp("roles")
    with dev_clickhouse(folder, data=folder / "data") as server:
        client = connect(server.dsn)
        migrate(client)
        write_day(client)
        client.close()
    return folder


@contextmanager
def as_role(role: str, folder: Path, data: Path) -> Iterator[Client]:
    with dev_clickhouse(folder, data=data, grants=[*grants_of(role), *FOR_CHDB]) as server:
        client = connect(server.dsn)
        try:
            yield client
        finally:
            client.close()


def write_day(client: Client) -> None:
    """Everything that workers write, at once."""
    kinds = {kind for piece in a_day() for kind in piece}
    ClickHouseSink(client).write(**{kind: [row for piece in a_day() for row in piece.get(kind, ())] for kind in kinds})


def refused(does: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match="ACCESS_DENIED"):
        does()


def test_a_worker_may_write_its_results_and_read_operator_actions(filled: Path) -> None:
    with as_role("epicenter_worker", filled, filled / "data") as client:
        assert migrate(client) == []
        write_day(client)
        operator_actions.list_silences(client, 0)
        operator_actions.list_acknowledgements(client)
        refused(lambda: client.query("SELECT document FROM incidents"))
        refused(lambda: client.command("TRUNCATE TABLE matches"))
        refused(lambda: client.command("CREATE TABLE x (a Int8) ENGINE = Memory"))
        refused(lambda: client.command("ALTER TABLE incidents DELETE WHERE 1"))
        refused(lambda: operator_actions.write_feedback(client, operator_actions.Feedback("a1", "ada", 1, 1, "right")))


async def test_the_page_may_read_everything_and_write_operator_actions(filled: Path) -> None:
    with as_role("epicenter_page", filled, filled / "data") as client:
        assert migrate(client) == []
        application = page(asynchronous(client), lambda: {"status": "ok"}, Feed())
        dead_letters = StoredDeadLetters(client)
        application.add_routes(dead_letter_routes(later(dead_letters.newest), later(dead_letters.get)))
        async with TestClient(TestServer(application)) as browser:
            incident = (await (await browser.get("/api/incidents")).json())[0]
            for path in paths(application, incident):
                answer = await browser.get(path)
                assert answer.status in (200, 400, 404), (path, await answer.text())
                assert "ACCESS_DENIED" not in await answer.text()
            own = {"who": "ada"}
            matchers = {"matchers": {"class": incident["class"]}, "duration": "1h", "reason": "drained", **own}
            for path, form in (
                (f"/api/incidents/{incident['incident_id']}/feedback", {"verdict": "right", **own}),
                (f"/api/incidents/{incident['incident_id']}/acknowledgement", own),
                ("/api/silences", matchers),
            ):
                answer = await browser.post(path, json=form)
                assert answer.status == 201, (path, await answer.text())
        dead_letters.record([Replay("a1", 1, Position("logs.raw/0", 7), Position("logs.raw/0", 8), time_ns())])
        refused(lambda: client.command("INSERT INTO incidents (incident_id) VALUES ('x')"))
        refused(lambda: client.command("ALTER TABLE silences DELETE WHERE 1"))


def test_grafana_may_only_read(filled: Path) -> None:
    with as_role("epicenter_grafana", filled, filled / "data") as client:
        for (table,) in client.query("SHOW TABLES"):
            client.query(f"SELECT count() FROM {table}")
        refused(lambda: operator_actions.write_feedback(client, operator_actions.Feedback("a1", "ada", 1, 1, "right")))
        refused(lambda: client.command("DROP TABLE incidents"))


def test_migrate_may_create_tables_and_not_read_them(tmp_path: Path) -> None:
    with as_role("epicenter_migrate", tmp_path, tmp_path / "data") as client:
        assert len(migrate(client)) == len(read_migrations())
        refused(lambda: client.query("SELECT document FROM incidents"))
        refused(lambda: client.command("DROP TABLE incidents"))


def test_every_role_statement_is_valid_sql() -> None:
    client = connect("chdb://memory")
    try:
        shown = re.findall(r"^```sql\n(.*?)^```", SECURITY.read_text(), re.MULTILINE | re.DOTALL)
        for statement in (*role_statements("a b`c"), *statements_of("\n".join(shown))):
            client.query(f"EXPLAIN AST {statement.sql}")
        with pytest.raises(ConfigError, match="an embedded store has no users"):
            create_roles(client)
    finally:
        client.close()


def test_the_plan_shows_the_roles_with_their_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(store="chdb://memory")  # type: ignore[arg-type]
    migrate_store(settings, only_plan=True, with_sql=True, with_logs=False, with_roles=True)
    shown = capsys.readouterr().out
    assert "-- Grafana only reads." in shown
    assert shown.count("CREATE ROLE IF NOT EXISTS epicenter_") == 4


def asynchronous(client: Client) -> Any:
    async def run(question: Callable[[Client], Any], /) -> Any:
        return question(client)

    return run


def later(find: Callable[..., Any]) -> Any:
    async def answer(*given: Any) -> Any:
        return find(*given)

    return answer


def paths(application: Any, incident: dict[str, Any]) -> list[str]:
    """Every GET path of the page with a stored incident and job, except the endless one."""
    known = {"{id}": incident["incident_id"], "{cluster}": "default", "{job}": (incident["jobs"] or ["x"])[0]}
    found = {
        route.resource.canonical for route in application.router.routes() if route.method == "GET" and route.resource
    }
    found |= {f"/api/handover/{question}?id={incident['incident_id']}" for question in QUESTIONS}
    shown = []
    for path in sorted(found - {"/events", "/static", "/api/handover/{question}"}):
        for name, value in known.items():
            path = path.replace(name, value)
        shown.append(path)
    return shown
