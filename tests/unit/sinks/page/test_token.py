"""A page with a token: access, wrong tokens, browsers behind a proxy, and a worker's endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from epicenter.sinks.clickhouse.freshness import StoreState, store_state
from epicenter.sinks.net import token_guard
from epicenter.sinks.page import Feed, live, page
from epicenter.sinks.page.guard import MAX_BODY_BYTES, MESSAGES
from tests.support.reverse_proxy import proxy_to

TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
Browser = TestClient[Any, Any]


async def nothing(query: object, /) -> Any:
    return StoreState() if query is store_state else []


@pytest.fixture
async def browser(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    monkeypatch.setattr(token_guard, "WRONG_TOKEN_DELAY_S", 0.01)
    application = page(nothing, lambda: {"status": "ok", "store": "chdb:///var/lib/x"}, Feed(), TOKEN)
    async with TestClient(TestServer(application)) as client:
        yield client


def routes() -> list[tuple[str, str]]:
    """Every method and path of the page, with the variables filled in."""
    found = page(nothing, lambda: {"status": "ok"}, Feed(), TOKEN).router.routes()
    shown = [(route.method, route.resource.canonical if route.resource else "") for route in found]
    return [(method, path.replace("{id}", "a1")) for method, path in shown if path not in token_guard.OPEN_PATHS]


@pytest.mark.parametrize(("method", "path"), routes())
async def test_every_route_is_refused_without_the_token(browser: Browser, method: str, path: str) -> None:
    answer = await browser.request(method, path, headers={"Content-Type": "application/json"})
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("value", [f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer é", TOKEN])
async def test_wrong_token_is_refused(browser: Browser, value: str) -> None:
    assert (await browser.get("/api/incidents", headers={"Authorization": value})).status == 401
    assert (await browser.get(f"/api/incidents?token={TOKEN}")).status == 401


async def test_bearer_token_is_accepted_for_any_host_name(browser: Browser) -> None:
    answer = await browser.get("/api/incidents", headers={**BEARER, "Host": "epicenter.example.org"})
    assert (answer.status, await answer.json()) == (200, [])


async def test_refusal_is_plain_text_for_browsers_and_json_for_programs(browser: Browser) -> None:
    shown = await browser.get("/jobs", headers={"Accept": "text/html"})
    assert (shown.status, shown.content_type) == (401, "text/plain")
    assert "use the proxy that signs you in" in await shown.text()
    refused = await browser.get("/api/incidents")
    assert (refused.status, await refused.json()) == (401, {"error": MESSAGES[401]})
    assert (await browser.get("/login", headers=BEARER)).status == 404


OUTSIDE = "epicenter.example.org:8443"


@pytest.mark.parametrize(
    ("passes_host", "headers", "status"),
    [
        (True, {"Origin": f"https://{OUTSIDE}", "Sec-Fetch-Site": "same-origin"}, 400),
        (True, {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
        (True, {"Sec-Fetch-Site": "cross-site"}, 403),
        (False, {"Origin": f"https://{OUTSIDE}", "Sec-Fetch-Site": "same-origin"}, 403),
    ],
)
async def test_json_form_is_accepted_through_a_proxy_that_forwards_the_host(
    browser: Browser, passes_host: bool, headers: dict[str, str], status: int
) -> None:
    proxy = proxy_to(str(browser.make_url("")).rstrip("/"), TOKEN, passes_host=passes_host)
    async with TestClient(TestServer(proxy)) as outside:
        sent = {**headers, "Host": OUTSIDE, "Content-Type": "application/json"}
        answer = await outside.post("/api/silences", data=b"{}", headers=sent)
        assert answer.status == status, await answer.text()
        assert (await outside.get("/api/incidents", headers={"Host": OUTSIDE})).status == 200


async def test_plain_form_is_accepted_through_a_proxy(browser: Browser) -> None:
    own = {"Host": OUTSIDE, "Origin": "null", "Sec-Fetch-Site": "same-origin"}
    async with TestClient(TestServer(proxy_to(str(browser.make_url("")).rstrip("/"), TOKEN))) as outside:
        path = "/incidents/a1/acknowledgement"
        form = {"who": "a" * MAX_BODY_BYTES}
        assert (await outside.post(path, data=form, headers=own)).status == 413, "let in, and too long"
        assert (await outside.post(path, data=form, headers=own | {"Sec-Fetch-Site": "cross-site"})).status == 403


async def test_events_stream_through_a_proxy(browser: Browser) -> None:
    async with TestClient(TestServer(proxy_to(str(browser.make_url("")).rstrip("/"), TOKEN))) as outside:
        stream = await outside.get("/events", headers={"Host": OUTSIDE})
        assert (stream.status, stream.content_type) == (200, "text/event-stream")
        assert (await stream.content.readline()).startswith(b"event: changed")
        stream.close()


async def test_wrong_tokens_are_delayed_and_the_right_one_is_not(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(token_guard, "WRONG_TOKEN_DELAY_S", 0.05)
    wrong = {"Authorization": f"Bearer {TOKEN[::-1]}"}
    count, begun_s = token_guard.MAX_PENDING_GUESSES + 5, monotonic()
    guesses = [asyncio.ensure_future(browser.get("/api/incidents", headers=wrong)) for _ in range(count)]
    await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
    assert (await browser.get("/api/incidents", headers=BEARER)).status == 200
    assert not all(guess.done() for guess in guesses)
    statuses = [answer.status for answer in await asyncio.gather(*guesses)]
    assert monotonic() - begun_s >= 0.05 * token_guard.MAX_PENDING_GUESSES
    assert (statuses.count(401), statuses.count(429)) == (token_guard.MAX_PENDING_GUESSES, 5)
    assert [record.msg for record in caplog.records][:2] == [
        {"event": "wrong_token", "remote": "127.0.0.1", "wrong_so_far": number} for number in (1, 2)
    ]


async def test_healthz_without_the_token_shows_only_the_status(browser: Browser) -> None:
    answer = await browser.get("/healthz")
    assert (answer.status, await answer.json()) == (200, {"status": "ok"})
    authorized = await browser.get("/healthz", headers=BEARER)
    assert (await authorized.json())["store"] == "chdb:///var/lib/x"


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_probes_need_no_token_and_show_nothing_else(browser: Browser, path: str) -> None:
    answer = await browser.get(path)
    assert (answer.status, await answer.json()) == (200, {"status": "ok"})


async def test_oversized_request_is_refused(browser: Browser) -> None:
    body = b"x" * (MAX_BODY_BYTES + 1)
    own = {**BEARER, "Content-Type": "application/json"}
    assert (await browser.post("/api/silences", data=body, headers=own)).status == 413
    assert (await browser.get("/", headers={**BEARER, "X-Long": "x" * 9_000})).status == 400
    assert (await browser.get("/?q=" + "x" * 9_000, headers=BEARER)).status in (400, 414)


async def test_event_streams_are_limited(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS", 3)
    streams = [await browser.get("/events", headers=BEARER) for _ in range(3)]
    assert {stream.status for stream in streams} == {200}
    assert (await browser.get("/events", headers=BEARER)).status == 503
    for stream in streams:
        stream.close()


@pytest.mark.parametrize(
    ("token", "headers", "path", "status"),
    [
        ("", {}, "/metrics", 200),
        (TOKEN, {}, "/metrics", 401),
        (TOKEN, {}, "/", 401),
        (TOKEN, {}, "/nowhere", 401),
        (TOKEN, {}, "/healthz", 200),
        (TOKEN, BEARER, "/healthz", 200),
        (TOKEN, {}, "/healthz/", 401),
        (TOKEN, {}, "/livez", 200),
        (TOKEN, {}, "/readyz", 200),
        (TOKEN, {"Authorization": f"Bearer {TOKEN}x"}, "/readyz", 401),
        (TOKEN, {"Authorization": f"Bearer {TOKEN}x"}, "/metrics", 401),
        (TOKEN, {"Authorization": f"Bearer {TOKEN}x"}, "/healthz", 401),
        (TOKEN, BEARER, "/metrics", 200),
        (TOKEN, BEARER, "/nowhere", 404),
    ],
)
async def test_worker_endpoints_require_the_token_except_probes(
    token: str, headers: dict[str, str], path: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="all" if request[token_guard.IS_KNOWN] else "the status alone")

    monkeypatch.setattr(token_guard, "WRONG_TOKEN_DELAY_S", 0.01)
    application = web.Application(middlewares=[token_guard.require_token(token, *token_guard.OPEN_PATHS)])
    application.add_routes([web.get(path, answer) for path in ("/", "/metrics", *token_guard.OPEN_PATHS)])
    async with TestClient(TestServer(application)) as client:
        answered = await client.get(path, headers=headers)
        assert answered.status == status
        if status == 200:
            is_authorized = not token or headers == BEARER
            assert await answered.text() == ("all" if is_authorized else "the status alone")
