"""The incident list: filters, days, groups, pages by number, bulk actions and how new the store is."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from time import time_ns
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from epicenter.rules.model.heartbeats import Alive
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.overview import DayCount
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.sinks.page import Feed, freshness, page
from epicenter.sinks.page.freshness import Freshness
from epicenter.sinks.page.strip import DAYS, HEIGHT_PX, strip_of
from tests.unit.sinks.clickhouse.test_rows import an_incident
from tests.unit.sinks.page.test_page import Browser, Store, text_of

DAY_NS = 86_400 * NS_PER_S
TABLES = ("incidents", "incident_revisions", "acknowledgements", "silences", "liveness")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    client = connect("chdb://memory/listing")
    migrate(client)
    yield client
    client.close()


@pytest.fixture
def store(client: Client) -> Store:
    for table in TABLES:
        client.command(f"TRUNCATE TABLE {table}")
    return Store(client)


@pytest.fixture
async def browser(store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    monkeypatch.setattr(freshness, "READ_EVERY_S", 0.0)
    async with TestClient(TestServer(page(store.query, lambda: {"status": "ok"}, Feed()))) as client:
        yield client


def incident_at(incident_id: str, ago_ns: int = 0, node: str = "n1", **fields: Any) -> Incident:
    """An incident that began `ago_ns` before now on a node."""
    found, began = an_incident(incident_id=incident_id), iso_from_ns(time_ns() - ago_ns)
    root = msgspec.structs.replace(found.root_cause, node=node)
    return msgspec.structs.replace(
        found, first_seen=began, last_seen=began, root_cause=root, **{"title": f"title {incident_id}", **fields}
    )


def shown_ids(text: str) -> list[str]:
    return re.findall(r'data-id="(\w+)"', text)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("severity=warning", ["b"]),
        ("time=24h", ["a"]),
        ("time=7d", ["a", "b"]),
        ("cluster=west", ["c"]),
        ("severity=warning&time=24h", []),
    ],
)
async def test_list_is_narrowed_by_severity_cluster_and_time(
    browser: Browser, store: Store, query: str, expected: list[str]
) -> None:
    store.write(
        incident_at("a"),
        incident_at("b", 3 * DAY_NS, severity="warning"),
        incident_at("c", 40 * DAY_NS, cluster="west"),
    )
    assert sorted(shown_ids(await text_of(browser, f"/?{query}"))) == expected


async def test_a_bar_of_the_strip_leads_to_the_incidents_of_its_day(browser: Browser, store: Store) -> None:
    store.write(
        incident_at("a"), incident_at("b", 3 * DAY_NS), incident_at("c", 3 * DAY_NS), incident_at("d", 40 * DAY_NS)
    )
    days = re.findall(r'href="(/\?time=[\d-]+)" aria-label="[^"]*: (\d+) incident', await text_of(browser, "/"))
    assert [int(count) for _, count in days] == [2, 1]
    assert sorted(shown_ids(await text_of(browser, days[0][0]))) == ["b", "c"]


def test_strip_has_thirty_days_scaled_to_the_busiest() -> None:
    strip = strip_of([DayCount(50, 9, 9), DayCount(99, 4, 2), DayCount(100, 1, 0)], 100 * DAY_NS)
    assert (len(strip.bars), strip.total) == (DAYS, 5)
    assert [bar.height for bar in strip.bars[-2:]] == [HEIGHT_PX, HEIGHT_PX / 4]
    assert [bar.open_height for bar in strip.bars[-2:]] == [HEIGHT_PX / 2, 0]
    assert strip.bars[-1].date == "1970-04-11"


@pytest.mark.parametrize(("by", "names"), [("node", ["n2", "n1"]), ("class", ["hang", "gpu.fell_off_bus"])])
async def test_groups_are_counted_and_lead_to_their_incidents(
    browser: Browser, store: Store, by: str, names: list[str]
) -> None:
    store.write(
        incident_at("a", status="resolved"),
        incident_at("b", node="n2", failure_class="hang"),
        incident_at("c", node="n2", failure_class="hang"),
    )
    text = await text_of(browser, f"/?group={by}")
    assert re.findall(r'<th scope="row">\s*(?:<a[^>]*>)?([^<]+)<', text) == names
    address = re.findall(rf'href="([^"]+)" aria-label="2 incidents of {names[0]}"', text)[0].replace("&amp;", "&")
    assert {"b", "c"} <= set(shown_ids(await text_of(browser, address)))


async def test_pages_have_numbers(browser: Browser, store: Store) -> None:
    store.write(*(incident_at(f"{number:03}", number * NS_PER_S) for number in range(120)))
    text = await text_of(browser, "/?page=3&view=compact")
    assert len(shown_ids(text)) == 20
    assert 'href="/?view=compact&amp;page=2" aria-label="Page 2"' in text
    assert 'aria-label="Page 3" aria-current="page"' in text and 'rel="next"' not in text


async def test_several_incidents_are_acknowledged_at_once(browser: Browser, store: Store) -> None:
    store.write(incident_at("aaa1"), incident_at("aaa2"), incident_at("aaa3"))
    form = {"incident_ids": ["aaa1", "aaa2", "aaa1"], "who": "ada", "note": "case 4711"}
    response = await browser.post("/api/incidents/acknowledgements", json=form)
    assert (response.status, [given["incident_id"] for given in await response.json()]) == (201, ["aaa1", "aaa2"])
    assert (await text_of(browser, "/")).count("Acknowledged by <b>ada</b>") == 2


async def test_several_incidents_are_silenced_with_their_own_labels(browser: Browser, store: Store) -> None:
    store.write(*(incident_at(f"aaa{number}", node=node) for number, node in enumerate(("n1", "n1", "n2"))))
    ids = ["aaa0", "aaa1", "aaa2"]
    form = {"incident_ids": ids, "reason": "drained", "duration": "4h", "who": "ada"}
    response = await browser.post("/api/incidents/silences", json=form)
    assert response.status == 201, await response.text()
    assert [silence["matchers"]["node"] for silence in await response.json()] == ["n1", "n2"]
    shown = [await text_of(browser, f"/incidents/{incident_id}") for incident_id in ids]
    assert all("silenced until" in text for text in shown)


BULK = [
    ("acknowledgements", {"incident_ids": ["aaa1", "nope"], "who": "ada"}, 404, "nope: no such incident"),
    ("acknowledgements", {"incident_ids": ["aaa1", "aaa2"], "who": "ada"}, 409, "merged into aaa1"),
    ("acknowledgements", {"incident_ids": ["aaa1"]}, 400, "who"),
    ("acknowledgements", {"incident_ids": [], "who": "ada"}, 400, "incident_ids"),
    ("acknowledgements", {"incident_ids": ["aaa1"] * 201, "who": "ada"}, 400, "incident_ids"),
    ("silences", {"incident_ids": ["aaa1", "nope"], "reason": "x", "duration": "4h"}, 404, "nope: no such incident"),
    ("silences", {"incident_ids": ["aaa1"], "reason": " ", "duration": "4h"}, 400, "reason"),
    ("silences", {"incident_ids": ["aaa1"], "reason": "x", "duration": "400d"}, 400, "duration"),
    ("silences", {"incident_ids": ["aaa1"], "reason": "x"}, 400, "duration"),
]


@pytest.mark.parametrize(("action", "form", "status", "problem"), BULK)
async def test_a_bulk_action_is_refused_whole(
    browser: Browser, store: Store, action: str, form: dict[str, Any], status: int, problem: str
) -> None:
    store.write(incident_at("aaa1"), incident_at("aaa2", merged_into="aaa1"))
    response = await browser.post(f"/api/incidents/{action}", json=form)
    assert response.status == status
    assert problem in (await response.json())["error"]
    assert store.client.query(f"SELECT count() FROM {action}") == [(0,)]


@pytest.mark.parametrize("action", ["acknowledgements", "silences"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}, 415),
        ({"Content-Type": "application/json", "Origin": "http://evil.example"}, 403),
        ({"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "application/json", "Host": "evil.example"}, 403),
    ],
)
async def test_bulk_actions_of_other_sites_are_refused(
    browser: Browser, store: Store, action: str, headers: dict[str, str], status: int
) -> None:
    store.write(incident_at("aaa1"))
    form = {
        "incident_ids": ["aaa1"],
        "who": "ada",
        **({"reason": "x", "duration": "4h"} if action == "silences" else {}),
    }
    response = await browser.post(f"/api/incidents/{action}", data=msgspec.json.encode(form), headers=headers)
    assert response.status == status
    assert store.client.query(f"SELECT count() FROM {action}") == [(0,)]


@pytest.mark.parametrize(
    ("age_ns", "state", "age", "doubt"),
    [
        (12 * NS_PER_S, "new", "newest line 12 s ago", ""),
        (265 * DAY_NS, "old", "newest line 265 d ago", "the newest line is 265 days old"),
        (None, "unknown", "newest line not known", "the newest line is not known"),
    ],
)
def test_freshness_is_stated(age_ns: int | None, state: str, age: str, doubt: str) -> None:
    now_ns = 2_000 * DAY_NS
    shown = Freshness(None if age_ns is None else now_ns - age_ns, now_ns)
    assert (shown.state, shown.age, shown.doubt) == (state, age, doubt)


async def test_a_quiet_page_is_no_all_clear_while_the_newest_line_is_old(browser: Browser, store: Store) -> None:
    assert "No open incidents, but the newest line is not known" in await text_of(browser, "/")
    store.write(incident_at("a", 265 * DAY_NS, status="resolved"))
    text = await text_of(browser, "/")
    assert "No open incidents, but the newest line is 265 days old" in text and 'data-freshness="old"' in text
    ClickHouseSink(store.client).write(heartbeats=[Alive(time_ns() - 20 * NS_PER_S, "east", "4711", "n1")])
    text = await text_of(browser, "/")
    assert 'class="calm">No open incidents</b>' in text and 'data-freshness="new"' in text


async def test_lines_of_a_wrong_clock_do_not_make_the_store_new(browser: Browser, store: Store) -> None:
    for ago_ns in (-3 * DAY_NS, 2 * DAY_NS):
        ClickHouseSink(store.client).write(heartbeats=[Alive(time_ns() - ago_ns, "east", "4711", "n1")])
    assert "newest line 2 d ago" in await text_of(browser, "/")


@pytest.mark.parametrize(
    ("clusters", "shown"), [(["east"], "cluster <b>east</b>"), (["east", "west"], "<b>2</b> clusters")]
)
async def test_cluster_and_utc_are_at_the_top(browser: Browser, store: Store, clusters: list[str], shown: str) -> None:
    store.write(*(incident_at(cluster, cluster=cluster) for cluster in clusters))
    text = await text_of(browser, "/silences")
    assert shown in text and re.search(r"<b data-clock>\d\d:\d\d</b> UTC", text)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/nowhere<b>", "There is no page at /nowhere&lt;b&gt;"),
        ("/" + "x" * 999, "x" * 100 + "…"),
        ("/incidents/nope", "nope: no such incident"),
        ("/jobs/east/nope", "job nope in cluster east"),
    ],
)
async def test_a_missing_page_names_what_was_not_found(browser: Browser, path: str, problem: str) -> None:
    response = await browser.get(path)
    text = await response.text()
    assert (response.status, response.content_type) == (404, "text/html")
    assert problem in text and '<a href="/">All incidents</a>' in text
