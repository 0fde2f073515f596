"""The store behind one thread of its own: its calls block, and the embedded engine wants one caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sinks.clickhouse.client import Client, connect
from sinks.clickhouse.letters import LetterFilter, Letters
from sinks.clickhouse.migrate import migrate
from sinks.clickhouse.sink import ClickHouseSink

Result = TypeVar("Result")


class Store:
    """`ClickHouseSink` for callers on an event loop. Errors are those of the sink."""

    def __init__(self, dsn: str, retry_for_s: float = 60.0):
        self._dsn = dsn
        self._retry_for_s = retry_for_s
        self._thread = ThreadPoolExecutor(1, "store")
        self._client: Client | None = None
        self._sink: ClickHouseSink | None = None

    async def open(self) -> None:
        """Connect, if that is still to be done, and bring the tables up to date."""
        if self._sink is None:
            await self._call(self._open)

    async def write(self, **rows: Any) -> None:
        """As `ClickHouseSink.write`."""
        await self._call(lambda: self._opened.write(**rows))

    async def write_once(self, **rows: Any) -> None:
        """The same without trying again."""
        await self._call(lambda: ClickHouseSink(self._connected, retry_for_s=0).write(**rows))

    async def list_incidents(self, limit: int, status: str | None = None) -> list[dict[str, Any]]:
        """As `ClickHouseSink.list_incidents`."""
        return await self._call(lambda: self._opened.list_incidents(limit, status))

    async def get_incident(self, incident_id: str) -> dict[str, Any] | None:
        """As `ClickHouseSink.get_incident`."""
        return await self._call(lambda: self._opened.get_incident(incident_id))

    async def list_letters(self, wanted: LetterFilter, limit: int) -> list[dict[str, Any]]:
        """As `Letters.newest`."""
        return await self._call(lambda: Letters(self._connected).newest(wanted, limit))

    async def get_letter(self, dead_letter_id: str) -> dict[str, Any] | None:
        """As `Letters.get`."""
        return await self._call(lambda: Letters(self._connected).get(dead_letter_id))

    async def close(self) -> None:
        """Let go of the store."""
        if self._client is not None:
            await self._call(self._client.close)
        self._thread.shutdown(wait=False)

    @property
    def _opened(self) -> ClickHouseSink:
        if self._sink is None:
            self._open()
        assert self._sink is not None
        return self._sink

    @property
    def _connected(self) -> Client:
        assert self._opened and self._client
        return self._client

    def _open(self) -> None:
        self._client = connect(self._dsn)
        migrate(self._client)
        self._sink = ClickHouseSink(self._client, self._retry_for_s)

    async def _call(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
