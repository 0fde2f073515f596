"""`epicenter page` without a store, with a busy store and with a store that is not up yet."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from deploy.dev.process import EPICENTER, free_ports
from epicenter.stream.local.page import served
from epicenter.stream.settings import Settings
from epicenter.stream.store.thread import MAX_QUERIES
from tests.support.serving import epicenter

pytestmark = pytest.mark.integration


def refused(*arguments: object) -> tuple[int, str]:
    done = subprocess.run(
        [*EPICENTER, "page", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    code, errors = refused("--data-dir", tmp_path)
    assert (code, "no store here yet" in errors) == (66, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dsn", ["postgres://x", "chdb://relative", "http://host:port/"])
def test_a_wrong_dsn_is_refused(dsn: str) -> None:
    code, errors = refused("--store", dsn)
    assert (code, "store DSN" in errors) == (78, True)


def test_a_store_open_in_another_process_is_refused_until_it_is_closed(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with epicenter(tmp_path, "run", logs, "--data-dir", tmp_path / "data", "--page-port", 0):
        code, errors = refused("--data-dir", tmp_path / "data")
    assert (code, "has this embedded store open" in errors) == (69, True)
    with epicenter(tmp_path, "page", "--data-dir", tmp_path / "data", "--port", 0) as base:
        assert json.loads(fetched(base + "/healthz")[1])["status"] == "ok"
        assert (tmp_path / "data" / "page.url").read_text().splitlines()[0] == base + "/"
    assert not (tmp_path / "data" / "page.url").exists()


def test_local_commands_need_the_token_of_the_running_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").mkdir()
    command = [*EPICENTER, "silences", "list", "--data-dir", str(tmp_path / "data")]
    monkeypatch.setenv("EPICENTER_PAGE_TOKEN", "0123456789abcdef")
    with epicenter(tmp_path, "run", tmp_path / "logs", "--data-dir", tmp_path / "data", "--page-port", 0) as base:
        assert fetched(base + "/api/silences")[0] == 401
        with_token = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        monkeypatch.setenv("EPICENTER_PAGE_TOKEN", "another-token-of-mine")
        without = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert with_token.returncode == 0, with_token.stderr
    assert (without.returncode, without.stderr) == (
        78,
        "epicenter: page_token: the page of the running epicenter refuses it: set the token that it was started with\n",
    )


def test_a_page_that_other_hosts_reach_needs_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICENTER_PAGE_HOST", "0.0.0.0")
    code, errors = refused("--store", "http://127.0.0.1:1/x")
    assert (code, errors.count("\n"), "page_host: 0.0.0.0: others reach it" in errors) == (78, 1, True)


def test_the_page_starts_while_the_store_is_unreachable(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with epicenter(tmp_path, "page", "--store", f"http://ada:secret@127.0.0.1:{port}/x", "--port", 0) as base:
        status, text = fetched(base + "/")
        assert (status, "The store is not responding" in text, "secret" in text) == (503, True, False)
        status, text = fetched(base + "/healthz")
        assert (status, "secret" in text) == (503, False)


def test_requests_beyond_the_limit_are_refused_at_once_while_the_store_hangs(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(MAX_QUERIES + 1) as browsers:
        dsn = f"http://ada:secret@127.0.0.1:{silent.getsockname()[1]}/x"
        with epicenter(tmp_path, "page", "--store", dsn, "--port", 0) as base:
            answers = [browsers.submit(fetched, base + "/jobs") for _ in range(MAX_QUERIES + 1)]
            first = next(as_completed(answers)).result()
            assert (first[0], "queries are open already" in first[1]) == (503, True)
            answered_s = monotonic()
        assert monotonic() - answered_s < 10


async def test_a_browser_that_stops_reading_does_not_delay_the_shutdown() -> None:
    async def much(request: web.Request) -> web.Response:
        return web.Response(body=bytes(64 << 20))

    application = web.Application()
    application.add_routes([web.get("/", much)])
    async with asyncio.timeout(30):
        async with served(application, Settings(page_port=0), None) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readexactly(1)
    writer.close()


async def test_a_taken_port_is_reported_where_any_free_one_serves() -> None:
    reported: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.MonkeyPatch.context() as patch:
        patch.setattr("epicenter.stream.local.page.print_message", reported.append)
        port = other.getsockname()[1]
        async with served(web.Application(), Settings(page_port=port), None) as url:
            assert urlsplit(url).port not in (port, 0)
    refused = f"page_host, page_port: 127.0.0.1:{port}: can't listen there: Address already in use"
    assert reported == [f"{refused}; any free port serves the page"]


def fetched(url: str) -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_what_listens_where_a_killed_page_was_gets_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").mkdir()
    data, received = tmp_path / "data", list[bytes]()
    monkeypatch.setenv("EPICENTER_PAGE_TOKEN", "0123456789abcdef")
    options = ("--data-dir", data, "--page-port", 0)
    with epicenter(tmp_path, "run", tmp_path / "logs", *options, ends_by=signal.SIGKILL) as base:
        pass
    assert (data / "page.url").read_text().startswith(base)
    with socket.create_server(("127.0.0.1", urlsplit(base).port or 0)) as stranger, ThreadPoolExecutor(1) as pool:
        pool.submit(_answer_with_a_redirect, stranger, received)
        command = [*EPICENTER, "silences", "list", "--data-dir", str(data)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert b"GET /proof" in received[0]
    assert b"0123456789abcdef" not in b"".join(received)


def _answer_with_a_redirect(stranger: socket.socket, received: list[bytes]) -> None:
    connection, _ = stranger.accept()
    with connection:
        received.append(connection.recv(1 << 16))
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
        received.append(connection.recv(1 << 16))
