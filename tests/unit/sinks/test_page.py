"""The local page, by an HTTP client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from rules.errors import TransientError
from rules.model import Cost, Evidence, Incident, RankedCause
from sinks.page import page
from tests.unit.sinks.test_rows import an_incident

NASTY = "<script>alert(1)</script>\"'&\x1b[31m\u202egnp"
PATHS = ["/", "/incidents/00000000000000a1", "/incidents/nope", "/style.css", "/healthz", "/nowhere"]
"""Every kind of answer, the failed ones too."""


class FakeStore:
    """Incidents in a list, as the store would give them back."""

    def __init__(self) -> None:
        self.incidents = [an_incident()]
        self.asked: list[tuple[int, str | None]] = []
        self.is_away = False
        self.health: Mapping[str, object] = {"status": "ok", "lines": 12}

    async def list_incidents(self, limit: int, status: str | None = None) -> Sequence[Mapping[str, Any]]:
        if self.is_away:
            raise TransientError("chdb://memory: <away>\x1b")
        self.asked.append((limit, status))
        return [msgspec.to_builtins(incident) for incident in self.incidents]

    async def get_incident(self, incident_id: str) -> Mapping[str, Any] | None:
        found: list[Incident] = [incident for incident in self.incidents if incident.incident_id == incident_id]
        return msgspec.to_builtins(found[0]) if found else None


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
async def browser(store: FakeStore) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(page(store.list_incidents, store.get_incident, lambda: store.health))) as client:
        yield client


async def test_an_incident_shows_its_cost_its_other_candidates_and_what_is_missing(
    browser: TestClient[Any, Any], store: FakeStore
) -> None:
    first = RankedCause("gpu.fell_off_bus", "gpu.xid_79", "gpu-001", None, "", 0.9, ())
    other = RankedCause("net.link_down", "net.link", "gpu-007", None, "", 0.08, ())
    doubts = {"candidates": (first, other), "missing": ("no kernel log <of> gpu-007",), "cost": Cost(120, 33.3, 16)}
    store.incidents = [msgspec.structs.replace(store.incidents[0], **doubts)]
    text = await (await browser.get("/incidents/00000000000000a1")).text()
    for shown in ("net.link_down on gpu-007: 8%", "no kernel log &lt;of&gt; gpu-007", "120 steps, 33.3 GPU-hours"):
        assert shown in text


async def test_the_list_shows_what_matters(browser: TestClient[Any, Any]) -> None:
    response = await browser.get("/")
    text = await response.text()
    assert response.status == 200
    assert response.content_type == "text/html"
    for shown in ("critical", "open", "GPU fell off the bus", "gpu-001", "0000:3b:00", "4711", "2026-03-02 09:00:01"):
        assert shown in text
    assert '<a href="/incidents/00000000000000a1">' in text
    assert '<meta http-equiv="refresh" content="5">' in text


async def test_an_empty_list_says_so(browser: TestClient[Any, Any], store: FakeStore) -> None:
    store.incidents.clear()
    assert "No incidents." in await (await browser.get("/")).text()


async def test_one_incident_shows_its_proof(browser: TestClient[Any, Any]) -> None:
    text = await (await browser.get("/incidents/00000000000000a1")).text()
    for shown in (
        "Root cause",
        "90%",
        "earliest",
        "gpu.xid_79",
        "NVRM: Xid 79",
        "kern.log:3",
        "Drain the node.",
        "drain",
    ):
        assert shown in text
    assert "2026-03-02 09:00:01.123" in text


async def test_a_merged_incident_links_to_the_other(browser: TestClient[Any, Any], store: FakeStore) -> None:
    store.incidents[0] = msgspec.structs.replace(store.incidents[0], merged_into="00000000000000a2")
    assert '<a href="/incidents/00000000000000a2">' in await (await browser.get("/incidents/00000000000000a1")).text()


@pytest.mark.parametrize("path", ["/", "/incidents/00000000000000a1"])
async def test_log_text_can_do_nothing(browser: TestClient[Any, Any], store: FakeStore, path: str) -> None:
    nasty = an_incident(title=NASTY)
    evidence = (Evidence(source=NASTY, line=1, node=NASTY, failure_class=NASTY, text=NASTY + "\nsecond line"),)
    root = msgspec.structs.replace(nasty.root_cause, node=NASTY, gpu=NASTY, reasons=(NASTY,))
    chain = tuple(msgspec.structs.replace(link, text=NASTY, node=NASTY, role=NASTY) for link in nasty.chain)
    fields: dict[str, Any] = {"severity": NASTY, "status": NASTY, "jobs": (NASTY,), "nodes": (NASTY,), "action": NASTY}
    times = {"first_seen": NASTY, "last_seen": NASTY}
    store.incidents[0] = msgspec.structs.replace(
        nasty, evidence=evidence, root_cause=root, chain=chain, next_steps=(NASTY,), **fields, **times
    )
    text = await (await browser.get(path)).text()
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert r"\x1b[31m\u202egnp" in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert "'&\\x1b" not in text and "&quot;&#x27;&amp;" in text


async def test_an_id_can_not_leave_its_link(browser: TestClient[Any, Any], store: FakeStore) -> None:
    store.incidents[0] = an_incident(incident_id='"><script>/../x')
    assert 'href="/incidents/%22%3E%3Cscript%3E%2F..%2Fx"' in await (await browser.get("/")).text()


async def test_json_is_the_documents(browser: TestClient[Any, Any], store: FakeStore) -> None:
    response = await browser.get("/api/incidents?limit=7&status=open")
    assert response.content_type == "application/json"
    assert await response.json() == [json.loads(msgspec.json.encode(an_incident()))]
    assert store.asked == [(7, "open")]
    one = await browser.get("/api/incidents/00000000000000a1")
    assert msgspec.convert(await one.json(), Incident) == an_incident()


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1001", "99999999999999999999", "²", ""])
async def test_a_wrong_limit_is_400(browser: TestClient[Any, Any], limit: str) -> None:
    response = await browser.get("/api/incidents", params={"limit": limit})
    assert response.status == 400
    assert "limit" in (await response.json())["error"]


async def test_an_unknown_id_is_404(browser: TestClient[Any, Any]) -> None:
    response = await browser.get("/api/incidents/nope")
    assert (response.status, response.content_type) == (404, "application/json")
    assert "error" in await response.json()
    page_response = await browser.get("/incidents/nope")
    assert (page_response.status, page_response.content_type) == (404, "text/html")


async def test_a_store_that_is_away_is_503(browser: TestClient[Any, Any], store: FakeStore) -> None:
    store.is_away = True
    response = await browser.get("/api/incidents")
    assert response.status == 503
    assert (await response.json())["error"] == r"chdb://memory: <away>\x1b"
    shown = await browser.get("/")
    assert shown.status == 503
    assert r"&lt;away&gt;\x1b" in await shown.text()


@pytest.mark.parametrize(("status", "expected"), [("ok", 200), ("behind", 503)])
async def test_health(browser: TestClient[Any, Any], store: FakeStore, status: str, expected: int) -> None:
    store.health = {"status": status}
    response = await browser.get("/healthz")
    assert response.status == expected
    assert await response.json() == {"status": status}


@pytest.mark.parametrize("path", PATHS)
async def test_every_answer_carries_the_strict_headers(browser: TestClient[Any, Any], path: str) -> None:
    response = await browser.get(path)
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy and "script-src" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "10.0.0.5", "", "[::1"]
)
@pytest.mark.parametrize("path", ["/", "/api/incidents", "/healthz", "/style.css"])
async def test_a_foreign_host_is_refused(browser: TestClient[Any, Any], store: FakeStore, host: str, path: str) -> None:
    response = await browser.get(path, headers={"Host": host})
    assert response.status in (400, 403)
    assert store.asked == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:9999", "127.1.2.3", "[::1]:8080"])
async def test_this_machine_is_answered(browser: TestClient[Any, Any], host: str) -> None:
    assert (await browser.get("/", headers={"Host": host})).status == 200


async def test_pages_hold_no_script_and_no_inline_style(browser: TestClient[Any, Any]) -> None:
    for path in ("/", "/incidents/00000000000000a1"):
        text = await (await browser.get(path)).text()
        assert "<script" not in text and "style=" not in text and "<style" not in text and "http://" not in text
