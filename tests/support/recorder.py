"""A real HTTP server in the test's own loop: it keeps what comes, and answers as it is told."""

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
        """What its JSON says."""
        return orjson.loads(self.body)


class Answer(NamedTuple):
    """What to answer with."""

    status: int = 200
    body: bytes = b"ok"
    headers: Mapping[str, str] = {}


class Recorder:
    """Where it listens, what came so far, and what each request is answered with."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Answer] = lambda _: Answer()
        self._coming: asyncio.Queue[Request] = asyncio.Queue()

    async def next(self) -> Request:
        """The next request that nobody asked for yet."""
        return await asyncio.wait_for(self._coming.get(), 20)

    async def take(self, request: web.Request) -> web.Response:
        came = Request(request.path, dict(request.headers), await request.read())
        self.requests.append(came)
        self._coming.put_nowait(came)
        answer = self.answer(came)
        return web.Response(status=answer.status, body=answer.body, headers=dict(answer.headers))


@asynccontextmanager
async def recording() -> AsyncIterator[Recorder]:
    """A recorder that listens on the loopback until the end of the `with`."""
    recorder = Recorder()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/{path:.*}", recorder.take)
    async with TestServer(app) as server:
        recorder.url = str(server.make_url("/")).rstrip("/")
        yield recorder
