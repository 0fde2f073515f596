"""A page with a token: who gets in, how guesses fare, and what a browser keeps; and what a worker's pages show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from sinks import token as door
from sinks.page import Feed, live, page
from sinks.page.guard import MOST_BODY_BYTES
from sinks.page.login import COOKIE

TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
Browser = TestClient[Any, Any]


async def nothing(_: object, /) -> Any:
    return []


@pytest.fixture
async def browser(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    monkeypatch.setattr(door, "GUESS_S", 0.01)
    application = page(nothing, lambda: {"status": "ok", "store": "chdb:///var/lib/x"}, Feed(), TOKEN)
    async with TestClient(TestServer(application)) as client:
        yield client


def routes() -> list[tuple[str, str]]:
    """Every method and path of the page, with something in place of the variables."""
    found = page(nothing, lambda: {"status": "ok"}, Feed(), TOKEN).router.routes()
    shown = [(one.method, one.resource.canonical if one.resource else "") for one in found]
    return [
        (method, path.replace("{id}", "a1")) for method, path in shown if path not in ("/login", "/healthz", "/static")
    ]


@pytest.mark.parametrize(("method", "path"), routes())
async def test_nothing_is_shown_or_changed_without_the_token(browser: Browser, method: str, path: str) -> None:
    answer = await browser.request(method, path, headers={"Content-Type": "application/json"})
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert (await browser.request(method, path, cookies={COOKIE: "1.2"})).status == 401


@pytest.mark.parametrize("value", [f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer é", TOKEN])
async def test_another_token_is_refused(browser: Browser, value: str) -> None:
    assert (await browser.get("/api/incidents", headers={"Authorization": value})).status == 401
    assert (await browser.get(f"/api/incidents?token={TOKEN}")).status == 401


async def test_a_program_shows_it_as_a_bearer_whatever_it_calls_the_host(browser: Browser) -> None:
    answer = await browser.get("/api/incidents", headers={**BEARER, "Host": "epicenter.example.org"})
    assert (answer.status, await answer.json()) == (200, [])


async def test_a_browser_signs_in_once_and_keeps_a_cookie_that_is_not_the_token(browser: Browser) -> None:
    asked = await browser.get("/jobs?x=<1>", headers={"Accept": "text/html"})
    assert asked.status == 401
    assert 'name="next" value="/jobs?x=%3C1%3E"' in await asked.text()
    answer = await browser.post("/login", data={"token": TOKEN, "next": "/jobs"}, allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (303, "/jobs")
    cookie = answer.cookies[COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "Strict", "/", "")
    assert TOKEN not in cookie.value
    assert (await browser.get("/jobs")).status == 200
    behind_tls = {"X-Forwarded-Proto": "https"}
    again = await browser.post("/login", data={"token": TOKEN}, headers=behind_tls, allow_redirects=False)
    assert again.cookies[COOKIE]["secure"] is True


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "https://evil.example", "/x\r\nSet-Cookie: a=b"])
async def test_signing_in_leads_nowhere_else(browser: Browser, path: str) -> None:
    answer = await browser.post("/login", data={"token": TOKEN, "next": path}, allow_redirects=False)
    assert answer.headers["Location"] == "/"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "application/x-www-form-urlencoded; charset=nope"}, b"token=x"),
        ({"Content-Type": "application/x-www-form-urlencoded; charset=utf-7"}, b"token=+2AA-"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"token=\xff\xfe&token=%ED%A0%80"),
        ({"Content-Type": "multipart/form-data"}, b"token"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x\r\n\r\nabc\r\n--x--\r\n"),
    ],
)
async def test_what_is_no_form_is_refused_without_a_traceback(
    browser: Browser, headers: dict[str, str], body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await browser.post("/login", data=body, headers=headers)
    assert answer.status in (400, 401)
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_cookie_ends_and_can_not_be_made_or_drawn_out() -> None:
    one = door.Door(TOKEN)
    session = one.session(1_000.0)
    until, _, signature = session.partition(".")
    assert one.session_shown(session, 1_000.0 + door.SIGNED_IN_S - 1) is door.Shown.RIGHT
    assert one.session_shown(session, 1_000.0 + door.SIGNED_IN_S) is door.Shown.NOTHING
    assert one.session_shown(f"{int(until) + 1}.{signature}", 1_000.0) is door.Shown.WRONG
    assert one.session_shown(f"x.{signature}", 1_000.0) is door.Shown.WRONG
    assert door.Door(TOKEN[::-1]).session_shown(session, 1_000.0) is door.Shown.WRONG


async def test_guesses_take_turns_and_the_right_one_does_not_wait(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(door, "GUESS_S", 0.05)
    wrong = {"Authorization": f"Bearer {TOKEN[::-1]}"}
    count, begun_s = door.MOST_GUESSES_WAITING + 5, monotonic()
    guesses = [asyncio.ensure_future(browser.get("/api/incidents", headers=wrong)) for _ in range(count)]
    await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
    assert (await browser.get("/api/incidents", headers=BEARER)).status == 200
    assert not all(guess.done() for guess in guesses)
    statuses = [answer.status for answer in await asyncio.gather(*guesses)]
    assert monotonic() - begun_s >= 0.05 * door.MOST_GUESSES_WAITING
    assert (statuses.count(401), statuses.count(429)) == (door.MOST_GUESSES_WAITING, 5)
    assert [record.getMessage() for record in caplog.records][:2] == [
        "a wrong token from 127.0.0.1; 1 so far",
        "a wrong token from 127.0.0.1; 2 so far",
    ]


async def test_probes_hear_the_status_alone(browser: Browser) -> None:
    answer = await browser.get("/healthz")
    assert (answer.status, await answer.json()) == (200, {"status": "ok"})


async def test_other_sites_can_not_act_with_somebodys_cookie(browser: Browser) -> None:
    await browser.post("/login", data={"token": TOKEN})
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}
    assert (await browser.post("/api/silences", data=b"{}", headers=foreign)).status == 403


async def test_what_is_too_long_is_refused(browser: Browser) -> None:
    body = b"x" * (MOST_BODY_BYTES + 1)
    own = {**BEARER, "Content-Type": "application/json"}
    assert (await browser.post("/api/silences", data=body, headers=own)).status == 413
    assert (await browser.get("/", headers={**BEARER, "X-Long": "x" * 9_000})).status == 400
    assert (await browser.get("/?q=" + "x" * 9_000, headers=BEARER)).status in (400, 414)


async def test_so_many_open_pages_are_kept_up_to_date_and_no_more(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 3)
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
        (TOKEN, {"Authorization": f"Bearer {TOKEN}x"}, "/metrics", 401),
        (TOKEN, {"Authorization": f"Bearer {TOKEN}x"}, "/healthz", 401),
        (TOKEN, BEARER, "/metrics", 200),
        (TOKEN, BEARER, "/nowhere", 404),
    ],
)
async def test_a_workers_pages(
    token: str, headers: dict[str, str], path: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="all" if request[door.IS_KNOWN] else "the status alone")

    monkeypatch.setattr(door, "GUESS_S", 0.01)
    application = web.Application(middlewares=[door.only_bearers(token, "/healthz")])
    application.add_routes([web.get(path, answer) for path in ("/", "/metrics", "/healthz")])
    async with TestClient(TestServer(application)) as client:
        answered = await client.get(path, headers=headers)
        assert answered.status == status
        if status == 200:
            is_known = not token or headers == BEARER
            assert await answered.text() == ("all" if is_known else "the status alone")
