"""What the page runs on: questions to the store, a feed of changes for open pages, and the health of the program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import time_ns
from typing import Final, Protocol, TypeVar

import msgspec
from aiohttp import web
from aiohttp_sse import sse_response

from epicenter.rules.errors import PipelineError
from epicenter.sinks.clickhouse.client import Client

HEALTH_EVERY_S: Final = 5.0
MAX_STREAMS: Final = 200
"""So many open pages are kept up to date; each is a connection and a task."""

Answer = TypeVar("Answer")
Health = Callable[[], Mapping[str, object]]
"""How the program is; `status` is `ok` or says what is wrong, the rest is shown as it is."""


class Ask(Protocol):
    """Put a question to the store, on a thread that may block; errors are those of the client."""

    def __call__(self, question: Callable[[Client], Answer], /) -> Awaitable[Answer]:
        """What `question` answers."""


class Feed:
    """Open pages wait on it; `version` changes with what they show, and differs from that of an earlier process."""

    def __init__(self) -> None:
        self.version = time_ns()
        self.is_closed = False
        self._news = asyncio.Event()

    def tell(self) -> None:
        """What pages show has changed."""
        self.version += 1
        self._wake()

    def close(self) -> None:
        """Let every open page go."""
        self.is_closed = True
        self._wake()

    async def wait(self, known_version: int, timeout_s: float) -> None:
        """Return when there are news since that version, at once or as they come, or when the time is over."""
        if self.version != known_version or self.is_closed:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), timeout_s)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Watcher:
    """Asks a store whether it changed, and tells the feed; `status` is `ok` or what is wrong with it."""

    def __init__(self, feed: Feed, newest: Callable[[], Awaitable[object]], say: Callable[[str], None]):
        self.status = "ok"
        self._feed = feed
        self._newest = newest
        self._say = say
        self._known: object = None

    async def follow(self, every_s: float) -> None:
        """Go on until cancelled, also while the store is away."""
        while True:
            await self.look()
            await asyncio.sleep(every_s)

    async def look(self) -> None:
        """Ask once."""
        before = (self._known, self.status)
        try:
            self._known = await self._newest()
            self.status = "ok"
        except PipelineError as error:
            self.status = str(error)
        if (self._known, self.status) == before:
            return
        self._feed.tell()
        if (self.status == "ok") != (before[1] == "ok"):
            self._say("the store answers again" if self.status == "ok" else f"store away: {self.status}")


def events(feed: Feed, health: Health) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of a stream of server-sent events: `changed` with the version, `health` as JSON."""

    streams = 0

    async def limited(request: web.Request) -> web.StreamResponse:
        """Server-sent events: `changed` when there is news, `health` every few seconds; so many at a time."""
        nonlocal streams
        if streams >= MAX_STREAMS:
            return web.Response(status=503, text="too many open pages", headers={"Retry-After": "60"})
        streams += 1
        try:
            return await stream(request)
        finally:
            streams -= 1

    async def stream(request: web.Request) -> web.StreamResponse:
        told = 0
        async with sse_response(request) as response:
            with suppress(ConnectionError):
                while response.is_connected() and not feed.is_closed:
                    if told != feed.version:
                        told = feed.version
                        await response.send(str(told), event="changed")
                    await response.send(msgspec.json.encode(health()).decode(), event="health")
                    await feed.wait(told, HEALTH_EVERY_S)
        return response

    return limited
