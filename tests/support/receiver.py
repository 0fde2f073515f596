"""A real HTTP server that records notifications and answers as a test wants."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from aiohttp import web


class Receiver:
    """A webhook on the loopback. `requests` holds headers and body of each POST; `status` is what it answers.

    `before_answer` may inspect a request and replace the answer: `drop` the connection, `garbage`,
    or a status.
    """

    def __init__(self, port: int = 0):
        self.status = 200
        self.before_answer: Callable[[dict[str, Any]], str | int | None] = lambda _: None
        self.accepted: list[str] = []
        self.headers: dict[str, str] = {}
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self._port = port

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}/hook"

    @property
    def ids(self) -> list[str]:
        """The id of each request's notification, duplicates included."""
        return [body["notification_id"] for _, body in self.requests]

    @property
    def titles(self) -> list[tuple[str, str]]:
        """The kind and the title of each."""
        return [(body["kind"], body["incident"]["title"]) for _, body in self.requests]

    @contextmanager
    def listening(self) -> Iterator[Receiver]:
        """Listens until the end of the `with`; another `with` restarts it at the same address."""
        loop, ready = asyncio.new_event_loop(), threading.Event()
        done = asyncio.Event()

        async def serve() -> None:
            app = web.Application(client_max_size=64 << 20)
            app.router.add_post("/hook", self._receive)
            runner = web.AppRunner(app, shutdown_timeout=0)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._port).start()
            self._port = runner.addresses[0][1]
            ready.set()
            await done.wait()
            await runner.cleanup()

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="receiver")
        thread.start()
        try:
            assert ready.wait(10)
            yield self
        finally:
            loop.call_soon_threadsafe(done.set)
            thread.join()
            loop.close()

    async def _receive(self, request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        self.requests.append((dict(request.headers), body))
        happens = self.before_answer(body)
        if isinstance(happens, str):
            assert request.transport
            if happens == "garbage":
                request.transport.write(b"\x00\xff no HTTP at all\r\n\r\n")
            request.transport.close()
        status = happens if isinstance(happens, int) else self.status
        if happens is None and status < 300:
            self.accepted.append(body["notification_id"])
        return web.Response(status=status, headers=self.headers, text="as configured\x1b[31m")
