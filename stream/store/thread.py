"""The store in a separate thread: its calls block, and the embedded engine allows one caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from epicenter.rules.errors import TransientError
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.dead_letters import DeadLetterFilter, StoredDeadLetters
from epicenter.sinks.clickhouse.dsn import address_of
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.stream.process.shutdown import FOR_THE_STORE_S, SHUTDOWN

QUERY_TIMEOUT_S: Final = 5
"""Timeout of queries, unless the DSN sets one: a reader of the page does not wait longer."""

MAX_WRITE_S: Final = 120
"""A minute of retries and the duration of the last one; what is not written by then is left to the next run."""

MAX_QUERIES: Final = 32
"""At most this many queries are open at a time."""

Result = TypeVar("Result")


class Store:
    """`ClickHouseSink` and store queries for callers on an event loop. Errors are those of the client."""

    def __init__(self, dsn: str, retry_for_s: float = 60.0, writer: str = ""):
        self._dsn = dsn
        self._writer = writer
        self._retry_for_s = retry_for_s
        self._thread = ThreadPoolExecutor(1, "store")
        self._is_embedded = dsn.startswith("chdb:")
        self._query_thread = self._thread if self._is_embedded else ThreadPoolExecutor(1, "store-questions")
        self._client: Client | None = None
        self._second_client: Client | None = None
        self._sink: ClickHouseSink | None = None
        self._open_queries = 0
        self._is_closed = False

    @property
    def address(self) -> str:
        """The DSN without user and password."""
        return address_of(self._dsn)

    async def open(self) -> None:
        """Connect, if not connected, and bring the tables up to date."""
        if self._sink is None:
            await self._run(self._thread, self._open)

    async def write(self, **rows: Any) -> None:
        """As `ClickHouseSink.write`."""
        await self._run(self._thread, lambda: self._opened.write(**rows))

    async def write_once(self, **rows: Any) -> None:
        """The same without retries."""

        def write() -> None:
            assert self._opened and self._client
            ClickHouseSink(self._client, retry_for_s=0, writer=self._writer).write(**rows)

        await self._run(self._thread, write)

    async def query(self, query: Callable[[Client], Result], /) -> Result:
        """The result of a query; on a server it does not wait for writes.

        Raises:
            TransientError: also if `MAX_QUERIES` are open already, or the store was closed.
        """
        if self._is_closed:
            raise TransientError(f"{self.address}: this process is closing the store")
        if self._open_queries >= MAX_QUERIES:
            raise TransientError(f"{self.address}: {MAX_QUERIES} queries are open already")
        self._open_queries += 1
        try:
            return await self._run(self._query_thread, lambda: query(self._query_client))
        finally:
            self._open_queries -= 1

    async def list_dead_letters(self, wanted: DeadLetterFilter, limit: int) -> list[dict[str, Any]]:
        """As `StoredDeadLetters.newest`."""
        return await self.query(lambda client: StoredDeadLetters(client).newest(wanted, limit))

    async def get_dead_letter(self, dead_letter_id: str) -> dict[str, Any]:
        """As `StoredDeadLetters.get`."""
        return await self.query(lambda client: StoredDeadLetters(client).get(dead_letter_id))

    async def close(self) -> None:
        """Close the store; waits for writes, but not for queries to a server."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._is_embedded:
            self._query_thread.shutdown(wait=False, cancel_futures=True)
        if self._second_client is not None:
            self._second_client.close()
        if self._client is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(SHUTDOWN.left_s(MAX_WRITE_S, FOR_THE_STORE_S)):
                    await self._run(self._thread, self._client.close)
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def _opened(self) -> ClickHouseSink:
        if self._sink is None:
            self._open()
        assert self._sink is not None
        return self._sink

    @property
    def _query_client(self) -> Client:
        """The client for queries: the only one of an embedded store, a second one for a server."""
        if self._is_embedded:
            assert self._opened and self._client
            return self._client
        if self._second_client is None:
            self._second_client = connect(_impatient(self._dsn))
        return self._second_client

    def _open(self) -> None:
        self._client = connect(self._dsn)
        migrate(self._client)
        self._sink = ClickHouseSink(self._client, self._retry_for_s, self._writer)

    async def _run(self, thread: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(thread, work)


def _impatient(dsn: str) -> str:
    """A server's DSN with short timeouts, unless it sets its own."""
    place, _, options = dsn.partition("?")
    return f"{place}?send_receive_timeout={QUERY_TIMEOUT_S}&{options}"
