"""A real HTTP server in the test's event loop: it records requests and answers as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer


class Request(NamedTuple):
    """One POST, word for word."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The decoded JSON body."""
        return orjson.loads(self.body)


class Answer(NamedTuple):
    """What to answer with."""

    status: int = 200
    body: bytes = b"ok"
    headers: Mapping[str, str] = {}


class Recorder:
    """Its address, the requests so far, and the answer to each request."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Answer] = lambda _: Answer()
        self._unread: asyncio.Queue[Request] = asyncio.Queue()

    async def next(self) -> Request:
        """The next request that no call has returned yet."""
        return await asyncio.wait_for(self._unread.get(), 20)

    async def receive(self, request: web.Request) -> web.Response:
        received = Request(request.path, dict(request.headers), await request.read())
        self.requests.append(received)
        self._unread.put_nowait(received)
        answer = self.answer(received)
        return web.Response(status=answer.status, body=answer.body, headers=dict(answer.headers))


@asynccontextmanager
async def recording() -> AsyncIterator[Recorder]:
    """A recorder that listens on the loopback until the end of the `with`."""
    recorder = Recorder()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/{path:.*}", recorder.receive)
    async with TestServer(app) as server:
        recorder.url = str(server.make_url("/")).rstrip("/")
        yield recorder
