"""Hostile receivers: a healthy target gets the same messages as in a calm run, and no token follows a redirect."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Final

from bench.attack.arena import Arena, Attack, Follower, append, must, off_bus, until
from tests.support.receiver import Receiver

SECRET: Final = "attack5f3c1e9a7b5f3c1e9a7b012345"
FAILURES: Final = 3
SENT_WITHIN_S: Final = 120
MAX_PEAK_MB: Final = 1200
PIECE: Final = b"x" * (1 << 16)
FORMATS: Final = {
    "webhook": "{{type: webhook, url: '{url}', secret: 'whsec_YXR0YWNrNWYzYzFlOWE3YjVmM2MxZTlhN2IwMTIzNDU='}}",
    "slack": "{{type: slack, url: '{url}'}}",
    "pagerduty": "{{type: pagerduty, url: '{url}', routing_key: {secret}}}",
    "alertmanager": "{{type: alertmanager, url: '{url}', bearer_token: {secret}}}",
}
Answer = Callable[[socket.socket, str], None]
"""Answers a connection in a hostile way; it gets the URL of a stranger too."""


def _head(status: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1")


def _send(data: bytes, wire: socket.socket, _: str) -> None:
    wire.sendall(data)


def _endless(first: bytes, again: bytes, wire: socket.socket, _: str) -> None:
    wire.sendall(first)
    while True:
        wire.sendall(again)


def _byte_by_byte(wire: socket.socket, _: str) -> None:
    for number in _head("200 OK", "Content-Length: 2") + b"ok":
        time.sleep(0.5)
        wire.sendall(bytes([number]))


def _never(wire: socket.socket, _: str) -> None:
    while wire.recv(1 << 16):
        pass


def _redirect(target: str, status: str, wire: socket.socket, stranger: str) -> None:
    place = target.format(stranger=stranger, itself=f"http://127.0.0.1:{wire.getsockname()[1]}/")
    wire.sendall(_head(status, f"Location: {place}", "Content-Length: 0"))


def _bomb(wire: socket.socket, _: str) -> None:
    body = gzip.compress(gzip.compress(bytes(256 << 20), 9), 9)
    wire.sendall(_head("503 Away", "Content-Encoding: gzip, gzip", f"Content-Length: {len(body)}") + body)


def _retry_after(value: str, wire: socket.socket, _: str) -> None:
    wire.sendall(_head("429 Slow down", f"Retry-After: {value}", "Content-Length: 0"))


HOSTILE: Final[dict[str, Answer]] = {
    "closes": lambda wire, _: wire.close(),
    "byte by byte": _byte_by_byte,
    "never": _never,
    "endless body": partial(_endless, _head("200 OK", "Content-Length: 99999999999999"), PIECE),
    "endless error": partial(_endless, _head("500 Away"), PIECE),
    "endless chunks": partial(
        _endless, _head("200 OK", "Transfer-Encoding: chunked"), b"10000\r\n" + PIECE + b"\r\n"
    ),
    "endless headers": partial(_endless, b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"y" * 4000 + b"\r\n"),
    "endless status": partial(_endless, b"HTTP/1.1 200 ", PIECE),
    "1xx flood": partial(_endless, b"", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"),
    "short body": partial(_send, _head("200 OK", "Content-Length: 100", "Connection: close") + b"short"),
    "negative length": partial(_send, _head("200 OK", "Content-Length: -5") + b"x"),
    "two lengths": partial(_send, _head("200 OK", "Content-Length: 1", "Content-Length: 7") + b"xxxxxxx"),
    "gzip bomb": _bomb,
    "bad gzip": partial(_send, _head("200 OK", "Content-Encoding: gzip", "Content-Length: 4") + b"nope"),
    "brackets": partial(_send, _head("200 OK", "Content-Type: application/json", "Content-Length: 100000")
                        + b"[" * 100_000),
    "huge number": partial(_send, _head("200 OK", "Content-Type: application/json", "Content-Length: 21")
                           + b'{"retry_after":1e400}'),
    "no HTTP": partial(_send, b"\x16\x03\x03\x00\x02\x02\x28\x00\xff" * 100),
    "TLS rubbish": partial(_send, b"\x16\x03\x03\x00\x02\x02\x28\x00\xff" * 100),
    "status 999": partial(_send, _head("999 \x1b[31mred", "Content-Length: 0")),
    "redirect to a stranger": partial(_redirect, "{stranger}", "307 Go"),
    "redirect to itself": partial(_redirect, "{itself}", "308 Go"),
    "redirect to a file": partial(_redirect, "file:///etc/passwd", "302 Go"),
    "redirect to metadata": partial(_redirect, "http://169.254.169.254/latest/meta-data/", "303 Go"),
    "Retry-After far": partial(_retry_after, "1000000000000"),
    "Retry-After negative": partial(_retry_after, "-5"),
    "Retry-After date": partial(_retry_after, "Fri, 31 Dec 9999 23:59:59 GMT"),
    "Retry-After nan": partial(_retry_after, "nan"),
}  # fmt: skip


def _attack(names: tuple[str, ...], kinds: tuple[str, ...], arena: Arena) -> None:
    """All these receivers at once, of every kind of target, next to a healthy one; a calm run has only that one."""
    with ExitStack() as stack:
        stranger: list[str] = []
        stranger_url = stack.enter_context(_server(partial(_record, stranger)))
        targets: dict[str, str] = {}
        reached: set[str] = set()
        for name in names:
            url = stack.enter_context(
                _server(partial(_hostile, HOSTILE[name], stranger_url, partial(reached.add, name)))
            )
            url = url.replace("http:", "https:") if name.startswith("TLS") else url
            targets |= {f"{name} {kind}": FORMATS[kind].format(url=url, secret=SECRET) for kind in kinds}
        calm, healthy = (stack.enter_context(Receiver().listening()) for _ in range(2))
        runs = [stack.enter_context(_run(arena, "calm", calm, {}).running()),
                stack.enter_context(_run(arena, "attacked", healthy, targets).running())]  # fmt: skip
        nodes = [arena.node() for _ in range(FAILURES)]
        for node in nodes:
            append(arena.logs / "kern.log", off_bus(node))
            for run in runs:
                run.must_find(node, within_s=SENT_WITHIN_S)
        until(lambda: set(calm.ids) == set(healthy.ids) and len(healthy.ids) >= FAILURES, SENT_WITHIN_S,
              "the messages of the calm run",
              lambda: f"{calm.titles} {healthy.titles} {runs[1].end_of_output()}")  # fmt: skip
        must(_order(calm) == _order(healthy), f"another order: {_order(calm)} {_order(healthy)}")
        must(reached == set(names), f"only {sorted(reached)} of {sorted(names)} received anything")
        must(not stranger, f"a redirect was followed: {stranger}")
        must(SECRET not in runs[1].output, "a token in the log")
        must("\x1b[31m" not in runs[1].output, "an escape code in the log")
        must(runs[1].peak_mb < MAX_PEAK_MB, f"{runs[1].peak_mb:.0f} MB")
        runs[1].must_be_calm()


def _order(receiver: Receiver) -> list[str]:
    return [body["notification_id"] for _, body in receiver.requests]


def _run(arena: Arena, name: str, healthy: Receiver, targets: dict[str, str]) -> Follower:
    append(arena.logs / "kern.log", "")
    lines = [f"  t{number}: {target}" for number, target in enumerate(targets.values())]
    names = ", ".join([*(f"t{number}" for number in range(len(lines))), "healthy"])
    file = arena.folder / f"{name}.yaml"
    file.write_text("\n".join([f"route: {{targets: [{names}]}}", "targets:", *lines,
                               f"  healthy: {{type: webhook, url: '{healthy.url}'}}", ""]))  # fmt: skip
    return Follower(arena.folder / name, arena.logs, env={"EPICENTER_ALERTS": str(file)})


@contextmanager
def _server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Answers each connection in a thread; those still open at the end are dropped with the process."""
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(server, answer), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
    finally:
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()


def _accept(server: socket.socket, answer: Callable[[socket.socket], None]) -> None:
    with suppress(OSError):
        while True:
            wire, _ = server.accept()
            threading.Thread(target=_answer, args=(wire, answer), daemon=True).start()


def _answer(wire: socket.socket, answer: Callable[[socket.socket], None]) -> None:
    with wire, suppress(OSError):
        wire.settimeout(60)
        answer(wire)


def _hostile(answer: Answer, stranger: str, on_request: Callable[[], None], wire: socket.socket) -> None:
    wire.recv(1 << 16)
    on_request()
    answer(wire, stranger)


def _record(received: list[str], wire: socket.socket) -> None:
    received.append(wire.recv(1 << 16).decode("latin-1"))


def _some(names: tuple[str, ...], *kinds: str) -> Attack:
    return partial(_attack, names, kinds or ("webhook",))


ATTACKS: Final[dict[str, Attack]] = {
    "redirects": _some(tuple(name for name in HOSTILE if name.startswith("redirect")), *FORMATS),
    "endless": _some(tuple(name for name in HOSTILE if name.startswith(("endless", "1xx", "never", "byte")))),
    "Retry-After": _some(tuple(name for name in HOSTILE if name.startswith("Retry-After")), *FORMATS),
    "rubbish": _some(("closes", "short body", "negative length", "two lengths", "bad gzip", "brackets", "huge number",
                      "no HTTP", "TLS rubbish", "status 999"), *FORMATS),
    "gzip bomb": _some(("gzip bomb",)),
    "endless, all formats": _some(("endless body", "endless headers"), *FORMATS),
}  # fmt: skip
