"""The page of a node, over an embedded store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from time import time_ns

import pytest
from aiohttp.test_utils import TestClient, TestServer

from epicenter.rules.model.heartbeats import Alive, Step
from epicenter.rules.model.records import LogEvent, Match, Position
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.sinks.page import Feed, page
from tests.unit.sinks.clickhouse.test_rows import XidFacts
from tests.unit.sinks.page.test_listing import DAY_NS, incident_at
from tests.unit.sinks.page.test_page import NASTY, Browser, Store, text_of


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    client = connect("chdb://memory/node")
    migrate(client)
    yield client
    client.close()


@pytest.fixture
def store(client: Client) -> Store:
    for table in ("incidents", "incident_revisions", "acknowledgements", "liveness", "matches"):
        client.command(f"TRUNCATE TABLE {table}")
    return Store(client)


@pytest.fixture
async def browser(store: Store) -> AsyncIterator[Browser]:
    async with TestClient(TestServer(page(store.query, lambda: {"status": "ok"}, Feed()))) as client:
        yield client


async def test_a_node_shows_its_incidents_and_how_often_they_were(browser: Browser, store: Store) -> None:
    store.write(
        incident_at("a1", node="n1", nodes=("n1", "n2")),
        incident_at("a2", 3 * DAY_NS, node="n2", nodes=("n1", "n2"), status="resolved"),
        incident_at("a3", 40 * DAY_NS, node="n1", nodes=("n1",), status="resolved"),
        incident_at("a4", node="n3", nodes=("n3",)),
    )
    text = await text_of(browser, "/nodes/n1")
    assert [name in text for name in ("title a1", "title a2", "title a3", "title a4")] == [True, True, True, False]
    assert "2 incidents<small>1 began here</small>" in text and "<small>3 in all</small>" in text


def node_match(match_id: str, source: str, node: str, text: str, time_ns: int) -> Match:
    event = LogEvent(time_ns, text, Position("logs.raw/3", 12), cluster="east", node=node, source=source)
    return Match(match_id, "gpu.xid_79", event, {})


async def test_a_node_shows_its_jobs_and_its_kernel_matches_by_class(browser: Browser, store: Store) -> None:
    now_ns = time_ns()
    lines = [
        ("m1", "kernel", "n1", "older line"),
        ("m2", "kernel", "n1", NASTY),
        ("m3", "worker", "n1", "not of the kernel"),
        ("m4", "kernel", "n2", "of another node"),
    ]
    matches = [(node_match(*line, now_ns + number), XidFacts()) for number, line in enumerate(lines)]
    ClickHouseSink(store.client).write(
        matches=matches, heartbeats=[Step(now_ns, "east", "job/7", "n1", 41), Alive(now_ns, "east", "9", "n2")]
    )
    text = await text_of(browser, "/nodes/n1")
    assert 'href="/jobs/east/job%2F7">job/7</a>' in text and ">41</td>" in text and "/jobs/east/9" not in text
    assert '<td class="number">2</td>' in text and "&lt;script&gt;alert(1)" in text
    assert "not of the kernel" not in text and "of another node" not in text


async def test_nodes_of_one_name_differ_by_cluster(browser: Browser, store: Store) -> None:
    store.write(incident_at("a1", cluster="east"), incident_at("a2", cluster="west"))
    both, west = await text_of(browser, "/nodes/n1"), await text_of(browser, "/nodes/n1?cluster=west")
    assert "title a1" in both and "title a2" in both
    assert "title a1" not in west and "title a2" in west
    assert '<a class="node" href="/nodes/n1?cluster=west">n1</a>' in await text_of(browser, "/incidents/a2")


async def test_an_unknown_node_is_404_and_named(browser: Browser) -> None:
    response = await browser.get("/nodes/nope%3Cb%3E?cluster=east")
    assert response.status == 404
    assert "Nothing is stored of node nope&lt;b&gt; in cluster east" in await response.text()
