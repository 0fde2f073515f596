"""Live updates: queries to the store, a feed of changes for open pages, and the process's health."""

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
from epicenter.sinks.clickhouse.freshness import StoreState
from epicenter.sinks.clickhouse.reading import Changes

HEALTH_EVERY_S: Final = 5.0
MAX_STREAMS: Final = 200
"""At most this many open pages get live updates; each costs a connection and a task."""

Answer = TypeVar("Answer")
Health = Callable[[], Mapping[str, object]]
"""The process's health: `status` is `ok` or says what is wrong; the page shows the other fields."""


class StoreQuery(Protocol):
    """Run a query on the store's thread; raises what the client raises."""

    def __call__(self, query: Callable[[Client], Answer], /) -> Awaitable[Answer]:
        """The result of `query`."""


class Feed:
    """Wakes open pages when data changes. `version` grows with each change and differs between processes.

    `wakes` counts those changes and the changes of job states, which only pages of jobs show.
    """

    def __init__(self) -> None:
        self.version = time_ns()
        self.wakes = 0
        self.is_closed = False
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Tell open pages that the data changed."""
        self.version += 1
        self._wake()

    def notify_jobs(self) -> None:
        """Tell open pages that the state of a job changed."""
        self._wake()

    def close(self) -> None:
        """End the stream of every open page."""
        self.is_closed = True
        self._wake()

    async def wait(self, known_wakes: int, timeout_s: float) -> None:
        """Return once there was a wake after `known_wakes`, or after `timeout_s`."""
        if self.wakes != known_wakes or self.is_closed:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout_s)

    def _wake(self) -> None:
        self.wakes += 1
        self._changed.set()
        self._changed = asyncio.Event()


class Watcher:
    """Polls the store for changes and notifies the feed.

    `status` is `ok` or the store's error; `away_since_ns` is when it was first found away, 0 while it answers.
    """

    def __init__(self, feed: Feed, newest: Callable[[], Awaitable[Changes]], report: Callable[[str], None]):
        self.status = "ok"
        self.away_since_ns = 0
        self._feed = feed
        self._newest = newest
        self._report = report
        self._known: Changes | None = None

    async def follow(self, every_s: float) -> None:
        """Poll every `every_s` seconds until cancelled, even while the store is unavailable."""
        while True:
            await self.poll()
            await asyncio.sleep(every_s)

    async def poll(self) -> None:
        """Poll once."""
        known, status = self._known, self.status
        try:
            self._known = await self._newest()
            self.status, self.away_since_ns = "ok", 0
        except PipelineError as error:
            self.status, self.away_since_ns = str(error), self.away_since_ns or time_ns()
        if (self._known and self._known.incidents, self.status) != (known and known.incidents, status):
            self._feed.notify()
        elif self._known != known:
            self._feed.notify_jobs()
        if (self.status == "ok") != (status == "ok"):
            self._report("store connection restored" if self.status == "ok" else f"store unavailable: {self.status}")


def events(
    feed: Feed, health: Health, state: Callable[[], Awaitable[StoreState]]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler that streams server-sent events: `changed` with the version, `health` as JSON.

    With each `health` a page of jobs loads its data anew: every few seconds, and when the state of a job changes.
    """

    streams = 0

    async def limited(request: web.Request) -> web.StreamResponse:
        """Server-sent events: `changed` when the data changes; `health` every few seconds and when the state of a job
        changes. At most 200 streams.
        """
        nonlocal streams
        if streams >= MAX_STREAMS:
            return web.Response(
                status=503, text="too many open pages: close some and reload", headers={"Retry-After": "60"}
            )
        streams += 1
        try:
            return await stream(request)
        finally:
            streams -= 1

    async def stream(request: web.Request) -> web.StreamResponse:
        sent_version = 0
        async with sse_response(request) as response:
            with suppress(ConnectionError):
                while response.is_connected() and not feed.is_closed:
                    wakes = feed.wakes
                    if sent_version != feed.version:
                        sent_version = feed.version
                        await response.send(str(sent_version), event="changed")
                    shown = {**health(), "newest_ms": _milliseconds((await state()).newest_ns)}
                    await response.send(msgspec.json.encode(shown).decode(), event="health")
                    await feed.wait(wakes, HEALTH_EVERY_S)
        return response

    return limited


def _milliseconds(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // 1_000_000
