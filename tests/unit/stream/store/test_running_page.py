"""Commands ask only the page that wrote the note in the data folder, and give their token to no other program."""

from __future__ import annotations

import asyncio
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from epicenter.sinks.net.proof import PROOF_PATH, proof
from epicenter.stream.local.page import served
from epicenter.stream.settings import Settings
from epicenter.stream.store.lookup import from_page, to_page
from epicenter.stream.store.running_page import NOTE, PageNote

TOKEN = "0123456789abcdef-of-ours"
KEY = "5" * 64
Respond = Callable[["Handler"], tuple[int, dict[str, str], bytes]]


class Handler(BaseHTTPRequestHandler):
    """Answers as a test wants; HTTP/1.1, so that connections stay open."""

    protocol_version = "HTTP/1.1"
    server: Stranger

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers)))
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        status, headers, body = self.server.respond(self)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that the library calls

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class Stranger(ThreadingHTTPServer):
    """A program that listens where the page was."""

    daemon_threads = True

    def __init__(self, respond: Respond):
        super().__init__(("127.0.0.1", 0), Handler)
        self.respond = respond
        self.requests: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    @property
    def tokens(self) -> list[str]:
        """What it learned."""
        return [headers["Authorization"] for _, headers in self.requests if "Authorization" in headers]


@contextmanager
def listening(respond: Respond) -> Iterator[Stranger]:
    with Stranger(respond) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def settings_of(folder: Path) -> Settings:
    return Settings(data_dir=folder, page_token=TOKEN)  # type: ignore[arg-type]


def answers_anything(handler: Handler) -> tuple[int, dict[str, str], bytes]:
    return 200, {}, b"[]"


def echoes_the_question(handler: Handler) -> tuple[int, dict[str, str], bytes]:
    return 200, {}, urlsplit(handler.path).query.encode()


def redirects_to_itself(handler: Handler) -> tuple[int, dict[str, str], bytes]:
    return (302, {"Location": "/elsewhere"}, b"") if handler.path != "/elsewhere" else (200, {}, b"[]")


def knows_another_key(handler: Handler) -> tuple[int, dict[str, str], bytes]:
    return proven(handler, "6" * 64)


def proven(handler: Handler, key: str = KEY) -> tuple[int, dict[str, str], bytes]:
    """The answer of one that knows the key."""
    nonce = parse_qs(urlsplit(handler.path).query).get("nonce", [""])[0]
    return 200, {}, proof(key, nonce).encode()


@pytest.mark.parametrize("respond", [answers_anything, echoes_the_question, redirects_to_itself, knows_another_key])
def test_a_program_at_the_address_of_a_killed_page_gets_no_token_and_is_not_believed(
    respond: Respond, tmp_path: Path
) -> None:
    with listening(respond) as stranger:
        PageNote(stranger.url, KEY).write(tmp_path)
        assert from_page(settings_of(tmp_path), "api/incidents") is None
        assert to_page(settings_of(tmp_path), "api/silences", {"who": "ada"}) is None
    assert stranger.tokens == []
    assert {urlsplit(path).path for path, _ in stranger.requests} == {PROOF_PATH}


def test_a_page_that_proves_itself_gets_the_token(tmp_path: Path) -> None:
    with listening(lambda handler: proven(handler) if PROOF_PATH in handler.path else (200, {}, b'["yes"]')) as page:
        PageNote(page.url, KEY).write(tmp_path)
        assert from_page(settings_of(tmp_path), "api/incidents?limit=5") == ["yes"]
    assert page.tokens == [f"Bearer {TOKEN}"]
    assert page.requests[-1][0] == "/api/incidents?limit=5"


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with listening(answers_anything) as elsewhere:

        def respond(handler: Handler) -> tuple[int, dict[str, str], bytes]:
            return proven(handler) if PROOF_PATH in handler.path else (302, {"Location": elsewhere.url}, b"")

        with listening(respond) as page:
            PageNote(page.url, KEY).write(tmp_path)
            assert from_page(settings_of(tmp_path), "api/incidents") is None
    assert elsewhere.requests == []


def test_a_page_that_dies_after_its_proof_leaves_no_connection_for_the_token(tmp_path: Path) -> None:
    def respond(handler: Handler) -> tuple[int, dict[str, str], bytes]:
        handler.close_connection = True
        return proven(handler)

    with listening(respond) as page:
        PageNote(page.url, KEY).write(tmp_path)
        assert from_page(settings_of(tmp_path), "api/incidents") is None
    assert (page.tokens, len(page.requests)) == ([], 1)


@pytest.mark.parametrize("text", ["", "no address\n", "http://127.0.0.1:9/", "http://127.0.0.1:x/\nk\n", "\xff\n\n\n"])
def test_a_note_that_is_no_note_is_ignored(text: str, tmp_path: Path) -> None:
    (tmp_path / NOTE).write_text(text)
    assert from_page(settings_of(tmp_path), "api/incidents") is None


async def test_a_served_page_writes_a_note_that_only_its_user_can_read(tmp_path: Path) -> None:
    folder, victim = tmp_path / "new" / "data", tmp_path / "victim"
    settings = Settings(data_dir=folder, page_port=0)
    async with served(web.Application(), settings, folder):
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder / NOTE, folder, folder.parent)] == [
            0o600,
            0o700,
            0o700,
        ]
    assert not (folder / NOTE).exists()
    (folder / NOTE).symlink_to(victim)
    async with served(web.Application(), settings, folder):
        assert not (folder / NOTE).is_symlink()
    assert not victim.exists()


async def test_a_note_that_a_killed_process_left_is_gone_before_the_next_page_listens(tmp_path: Path) -> None:
    PageNote("http://127.0.0.1:9/", KEY).write(tmp_path)
    application = web.Application()
    seen = []
    application.on_startup.append(lambda _: asyncio.to_thread(lambda: seen.append((tmp_path / NOTE).exists())))
    async with served(application, Settings(data_dir=tmp_path, page_port=0), tmp_path):
        assert seen == [False]
        first = PageNote.read(tmp_path)
    async with served(web.Application(), Settings(data_dir=tmp_path, page_port=0), tmp_path):
        assert first and PageNote.read(tmp_path) != first
