"""The page's token: no guess, detour or foreign web page gets in, and no stranger on the page's port gets the token."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from bench.attack.arena import Arena, Attack, Follower, append, command, must, off_bus

TOKEN: Final = "attack-0123456789abcdef-right-token"
BEARER: Final = f"Authorization: Bearer {TOKEN}"
GUESSES_A_ROUND: Final = 8
ANSWER_WITHIN_S: Final = 20
FORM: Final = '{"matchers": {"node": "n*"}, "for": "4h", "who": "mallory", "reason": "attack"}'

DETOURS: Final = (
    f"/api/incidents?token={TOKEN}",
    f"/api/incidents?access_token={TOKEN}",
    f"/api/incidents?authorization=Bearer%20{TOKEN}",
    "/livez/../api/incidents",
    "/livez/%2e%2e/api/incidents",
    "/static/../api/incidents",
    "/static/..%2f..%2fapi/incidents",
    "//api/incidents",
    "/api//incidents",
    "/./api/incidents",
    "/livez;/../api/incidents",
    "/livez%00/api/incidents",
    "/livez?/api/incidents",
    "/livez#/api/incidents",
    "/API/incidents",
    "/api/incidents/",
    "/healthz/api/incidents",
    "http://127.0.0.1/api/incidents",
    "/events",
    "/metrics",
    "/static/../../../../../../../../etc/passwd",
    "/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
)
WRONG_HEADERS: Final = (
    "",
    "Authorization:",
    "Authorization: Bearer",
    f"Authorization: {TOKEN}",
    f"Authorization: Basic {TOKEN}",
    f"Authorization: Token {TOKEN}",
    f"Authorization: Bearer {TOKEN[:-1]}",
    f"Authorization: Bearer {TOKEN}x",
    f"Authorization: Bearer {TOKEN.upper()}",
    f"Authorization: Bearer {TOKEN}, Bearer wrong",
    f"Authorization: Bearer {'x' * 6000}",
    "Authorization: Bearer \xff\xfe",
    f"Proxy-Authorization: Bearer {TOKEN}",
    f"Cookie: token={TOKEN}; page_token={TOKEN}; Authorization=Bearer {TOKEN}",
    f"X-Authorization: Bearer {TOKEN}",
    "X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nForwarded: for=127.0.0.1",
    "X-Original-URL: /livez\r\nX-Rewrite-URL: /livez",
    "X-HTTP-Method-Override: HEAD",
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==",
)
SMUGGLED: Final = "GET /api/incidents HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SMUGGLERS: Final = tuple(
    f"{first} /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n{rest}{SMUGGLED}"
    for first, rest in (
        ("POST", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("POST", "Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
        ("GET", f"Content-Length: 0\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n"),
        ("GET", "Content-Length: -1\r\n\r\n"),
        ("GET", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        ("GET", "X: a\n\n"),
        ("GET", f"X: a\r\n {BEARER}\r\n\r\n"),
        ("GET", f"{BEARER}\r\nConnection: keep-alive\r\n\r\n"),
    )
)
FOREIGN_HOSTS: Final = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1@evil.example",
                        "evil.example:80", "127.0.0.1, evil.example", "0x7f000001.evil.example", "")  # fmt: skip
FOREIGN_POSTS: Final = (
    "Origin: http://evil.example\r\nContent-Type: application/json",
    "Origin: null\r\nContent-Type: application/json",
    "Origin: http://127.0.0.1.evil.example\r\nContent-Type: application/json",
    "Origin: http://127.0.0.1:1\r\nContent-Type: application/json",
    "Content-Type: text/plain",
    "Content-Type: application/x-www-form-urlencoded",
    "Sec-Fetch-Site: cross-site\r\nContent-Type: application/json",
    "Sec-Fetch-Site: same-site\r\nContent-Type: application/json",
    "Origin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/json",
)


def exchange(url: str, request: str, within_s: float = ANSWER_WITHIN_S) -> str:
    """All bytes that a server answers to this text until it closes, or is quiet for a second."""
    place, answer = urlsplit(url), b""
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=within_s) as wire, suppress(OSError):
        wire.sendall(request.encode("latin-1"))
        while piece := wire.recv(1 << 16):
            answer += piece
            wire.settimeout(1)
            must(len(answer) < 64 << 20, f"an endless answer to {request[:200]!r}")
    return answer.decode("latin-1")


def _get(path: str, *headers: str, host: str = "127.0.0.1") -> str:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: close", *filter(None, headers)]
    return "\r\n".join(lines) + "\r\n\r\n"


@contextmanager
def _run_with_secret(arena: Arena, token: str = TOKEN) -> Iterator[tuple[Follower, str]]:
    """With a failure on a node whose name no answer may have."""
    append(arena.logs / "kern.log", off_bus(node := arena.node()))
    run = Follower(arena.folder / "run", arena.logs, env={"EPICENTER_PAGE_TOKEN": token} if token else {})
    if token:
        run.headers = {"Authorization": f"Bearer {token}"}
    with run.running():
        run.must_find(node)
        yield run, node
        run.must_be_calm()


def _must_hide(run: Follower, node: str, request: str) -> None:
    answer = exchange(run.url, request)
    must(node not in answer and "root:" not in answer and 'class="incident' not in answer
         and "epicenter_records_total" not in answer, f"{request[:300]!r} got {answer[:300]!r}")  # fmt: skip


def detours(arena: Arena) -> None:
    """Every path trick, wrong scheme, cookie and query string, without the right header."""
    with _run_with_secret(arena) as (run, node):
        for path in DETOURS:
            _must_hide(run, node, _get(path))
        for header in WRONG_HEADERS:
            for path in ("/api/incidents", "/", "/events"):
                _must_hide(run, node, _get(path, header))
        for method in ("HEAD", "OPTIONS", "POST", "PUT", "TRACE", "CONNECT", "get", "GET\t"):
            _must_hide(run, node, _get("/api/incidents").replace("GET", method, 1))
        must(node in exchange(run.url, _get("/api/incidents", BEARER)), "the right token does not open the page")


def smuggling(arena: Arena) -> None:
    """A request within another one, and one without a token after one with it on the same connection."""
    with _run_with_secret(arena) as (run, node):
        for request in SMUGGLERS:
            _must_hide(run, node, request)


def guesses(arena: Arena) -> None:
    """Guesses from many connections at once; the right token is answered meanwhile."""
    with _run_with_secret(arena) as (run, node):
        count, wrong = GUESSES_A_ROUND * arena.rounds, [f"{arena.draw.getrandbits(128):032x}" for _ in range(8)]
        answers: list[str] = []

        def guess(token: str) -> None:
            for _ in range(count // len(wrong)):
                with suppress(OSError):
                    answers.append(exchange(run.url, _get("/api/incidents", f"Authorization: Bearer {token}")))

        threads = [threading.Thread(target=guess, args=(token,), daemon=True) for token in wrong]
        for thread in threads:
            thread.start()
        slowest_s = 0.0
        while any(thread.is_alive() for thread in threads):
            begun_s = time.monotonic()
            must(node in exchange(run.url, _get("/api/incidents", BEARER)), "the right token is refused meanwhile")
            slowest_s = max(slowest_s, time.monotonic() - begun_s)
        must(slowest_s < 10, f"the right token waits {slowest_s:.1f} s")
        must(not [answer for answer in answers if node in answer], "a guess was right")


def foreign_web_pages(arena: Arena) -> None:
    """A page without a token: DNS rebinding reads nothing, a cross-origin request writes nothing."""
    with _run_with_secret(arena, token="") as (run, node):
        own = run.url.partition("//")[2]
        for host in FOREIGN_HOSTS:
            for path in ("/", "/api/incidents", "/events", "/metrics"):
                _must_hide(run, node, _get(path, host=host))
        incident = run.incidents()[0]["incident_id"]
        for headers in FOREIGN_POSTS:
            for path in ("/api/silences", f"/api/incidents/{incident}/acknowledgement",
                         f"/incidents/{incident}/acknowledgement", "/api/incidents/acknowledgements"):  # fmt: skip
                length = f"Connection: close\r\nContent-Length: {len(FORM)}"
                answer = exchange(
                    run.url, f"POST {path} HTTP/1.1\r\nHost: {own}\r\n{headers}\r\n{length}\r\n\r\n{FORM}"
                )
                must(answer.split(" ", 2)[1:2] != ["200"] and " 201 " not in answer[:40],
                     f"POST {path} with {headers!r} got {answer[:200]!r}")  # fmt: skip
        must(run.get("/api/silences") == [], "a silence was written")
        answer = exchange(run.url, _get("/api/incidents", "Origin: http://evil.example", host=own))
        must("Access-Control-Allow" not in answer, "other origins may read")


def stranger_on_the_port(arena: Arena) -> None:
    """After `kill -9`, commands that look for the page don't send the token to whoever has its port."""
    with _run_with_secret(arena) as (run, _):
        pass
    env = {"EPICENTER_PAGE_TOKEN": TOKEN}
    incident = command("incidents", "list", "--json", "--data-dir", run.data, env=env).document["incident_id"]
    with _listening(run.url) as received:
        for words in (("incidents", "list"), ("incidents", "show", incident), ("explain", incident),
                      ("ack", incident, "--note", "mine"), ("dead-letters", "list")):  # fmt: skip
            answer = command(*words, "--data-dir", run.data, env=env)
            must(not any(TOKEN in text for text in received), f"{' '.join(words)} sent the token: {received[-1]!r}")
            must(
                words[0] == "dead-letters" or answer.code == 0,
                f"{' '.join(words)}: {answer.code}: {answer.out[:500]!r}",
            )


@contextmanager
def _listening(url: str) -> Iterator[list[str]]:
    """Another server on the address; what it received."""
    received: list[str] = []
    server = socket.create_server(("127.0.0.1", urlsplit(url).port or 0))
    threading.Thread(target=_accept, args=(server, received.append), daemon=True).start()
    try:
        yield received
    finally:
        server.close()


def _accept(server: socket.socket, receive: Callable[[str], None]) -> None:
    body = b'{"status": "ok"}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    with suppress(OSError):
        while True:
            wire, _ = server.accept()
            with wire, suppress(OSError):
                wire.settimeout(5)
                receive(wire.recv(1 << 16).decode("latin-1"))
                wire.sendall(head % len(body) + body)


ATTACKS: Final[dict[str, Attack]] = {
    "detours": detours,
    "smuggling": smuggling,
    "guesses": guesses,
    "foreign web pages": foreign_web_pages,
    "stranger on the port": stranger_on_the_port,
}
