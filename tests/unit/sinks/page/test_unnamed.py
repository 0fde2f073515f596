"""The page of unnamed failures, over an embedded store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from time import time_ns

import pytest
from aiohttp.test_utils import TestClient, TestServer

from epicenter.rules.detect.signal import signal_of
from epicenter.rules.model.ledger import Joined
from epicenter.rules.model.records import LogEvent, Match, Position
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate, plan, read_migrations
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.sinks.clickhouse.unnamed import list_unnamed
from epicenter.sinks.page import Feed, page
from tests.support.logs import the_rules
from tests.support.signals import a_match
from tests.unit.sinks.page.test_listing import DAY_NS
from tests.unit.sinks.page.test_page import NASTY, Browser, Store, text_of


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    client = connect("chdb://memory/unnamed")
    migrate(client)
    yield client
    client.close()


@pytest.fixture
def store(client: Client) -> Store:
    client.command("TRUNCATE TABLE matches")
    return Store(client)


@pytest.fixture
async def browser(store: Store) -> AsyncIterator[Browser]:
    async with TestClient(TestServer(page(store.query, lambda: {"status": "ok"}, Feed()))) as client:
        yield client


def write_lines(store: Store, *lines: tuple[str, str, str, int]) -> None:
    """Lines by template, text and node, so many days ago."""
    matches = [
        Match(
            f"m{number}",
            "unnamed.failure",
            LogEvent(
                time_ns() - days * DAY_NS, text, Position("a.log", number), cluster="east", node=node, job="job/7"
            ),
            {"template": template},
        )
        for number, (template, text, node, days) in enumerate(lines)
    ]
    ClickHouseSink(store.client).write(matches=[(match, the_rules().spec_of(match)) for match in matches])


async def test_messages_of_the_last_week_are_shown_with_their_first_line(browser: Browser, store: Store) -> None:
    write_lines(
        store,
        ("lamp <number> out", "lamp 7 out", "n1", 1),
        ("lamp <number> out", "lamp 8 out", "n2", 0),
        ("no oil", "no oil", "n3", 9),
    )
    text = await text_of(browser, "/unnamed")
    assert "lamp 7 out" in text and "lamp 8 out" not in text and "no oil" not in text
    assert 'href="/jobs/east/job%2F7">job/7</a>' in text and 'href="/nodes/n1">n1</a>' in text
    assert text.count('<td class="number">2</td>') == 3


async def test_log_text_is_sanitized(browser: Browser, store: Store) -> None:
    write_lines(store, (NASTY, NASTY, NASTY, 0))
    text = await text_of(browser, "/unnamed")
    assert text.count("<script") == 2
    assert "&lt;script&gt;alert(1)" in text
    assert not {"\x1b", "\u202e"} & set(text)


async def test_an_empty_list_has_a_sentence_instead_of_a_table(browser: Browser) -> None:
    assert "No new messages" in await text_of(browser, "/unnamed")


async def test_a_message_of_one_node_comes_before_newer_ones_of_many(browser: Browser, store: Store) -> None:
    write_lines(store, ("lamp out", "lamp out", "n1", 2), ("no oil", "no oil", "n2", 1), ("no oil", "no oil", "n3", 0))
    text = await text_of(browser, "/unnamed")
    assert text.index("lamp out") < text.index("no oil")


def test_a_store_of_the_seventh_migration_is_migrated() -> None:
    client = connect("chdb://memory/seventh")
    migrate(client)
    seventh, eighth = read_migrations()[6:8]
    client.command("DROP VIEW unnamed_messages")
    client.command("ALTER TABLE schema_migrations DELETE WHERE version = 8", {})
    for statement in seventh.statements:
        client.command(statement.sql)
    assert [migration.version for migration in plan(client)] == [8]
    match = a_match("unnamed.failure", 60, "n1", "A", rank=3, fields={"template": "lamp out"})
    joined = Joined("i1", signal_of(the_rules(), match))
    ClickHouseSink(client).write(matches=[(match, the_rules().spec_of(match))], signals=[joined])
    assert migrate(client) == [eighth.name]
    (message,) = list_unnamed(client, 0, 10)
    assert (message["ranks"], message["healthy_hours"], message["evidence_lines"]) == (1, 1, 1)
    client.close()
