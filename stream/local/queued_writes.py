"""Writes to the store that don't stop `epicenter run`: while the store takes none, rows wait and are written later."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from time import time_ns
from typing import Any, Final

import stamina

from epicenter.rules.errors import TransientError
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.ledger import Gap
from epicenter.sinks.clickhouse.errors import StoreFullError
from epicenter.sinks.log import get_logger
from epicenter.sinks.text.humanize import count
from epicenter.stream.local.write_queue import MAX_WAITING_BYTES, WriteQueue
from epicenter.stream.metrics import Metrics
from epicenter.stream.process.shutdown import FOR_THE_STORE_S, SHUTDOWN
from epicenter.stream.store.thread import MAX_WRITE_S, Store

FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 15.0
ROWS_NOT_STORED: Final = "rows-not-stored"
"""The kind of the gap that rows leave that were given up."""

log: Final = get_logger(__name__)


class QueuedWrites:
    """Writes for one run. `fault` is why the store takes no rows, None while it does.

    `given_up` counts the rows, by table, that found no room in the queue since then.
    """

    def __init__(self, store: Store, metrics: Metrics, max_bytes: int = MAX_WAITING_BYTES):
        self._store = store
        self._metrics = metrics
        self._queue = WriteQueue(max_bytes)
        self._retrying: asyncio.Task[None] | None = None
        self._since_ns = 0
        self._has_caught_up = False
        self.fault: TransientError | None = None
        self.given_up: Counter[str] = Counter()

    @property
    def is_behind(self) -> bool:
        """Whether rows wait for the store."""
        return self._retrying is not None

    @property
    def is_disk_full(self) -> bool:
        """Whether they wait because its disk is full."""
        return isinstance(self.fault, StoreFullError)

    @property
    def problem(self) -> str:
        """What is wrong, in words; empty while all is stored."""
        if not self.fault:
            return ""
        given_up = f", {_in_words(self.given_up)} given up" if self.given_up else ""
        return f"{self.fault}; waiting in memory: {_in_words(self._queue.counts())}{given_up}"

    async def write(self, **rows: list[Any]) -> None:
        """Write rows, or queue them while the store fails.

        Raises:
            RejectedError, ConfigError: the store will not take these rows, or queued ones.
        """
        if self._retrying and self._retrying.done():
            self._retrying.result()
        if self._retrying:
            self._add(rows)
            return
        try:
            await self._write_now(rows)
        except TransientError:
            self._since_ns = time_ns()
            self._add(rows)
            log.warning("store_write_failed", error=str(self.fault), detail="rows wait in memory; reading continues")
            self._retrying = asyncio.create_task(self._retry())

    def take_caught_up(self) -> bool:
        """Whether queued rows were all stored since the last call."""
        has_caught_up, self._has_caught_up = self._has_caught_up, False
        return has_caught_up

    async def finish(self) -> None:
        """Try once more to write the rows that wait.

        Raises:
            TransientError: some are not stored; the message says how many.
        """
        if not self._retrying:
            return
        self._retrying.cancel()
        with suppress(asyncio.CancelledError):
            await self._retrying
        try:
            async with asyncio.timeout(SHUTDOWN.left_s(MAX_WRITE_S, FOR_THE_STORE_S)):
                await self._drain()
        except (TransientError, TimeoutError) as error:
            lost = _in_words(self._queue.counts() + self.given_up)
            raise TransientError(
                f"{self.fault}; not stored: {lost}; the next run on these logs reads their lines again"
            ) from error

    async def _retry(self) -> None:
        async for attempt in stamina.retry_context(
            on=TransientError, attempts=None, timeout=None, wait_initial=FIRST_PAUSE_S, wait_max=MAX_PAUSE_S
        ):
            with attempt:
                await self._drain()
        log.warning("store_caught_up", after_s=(time_ns() - self._since_ns) // 10**9, given_up=_in_words(self.given_up))
        self.given_up.clear()
        self.fault, self._retrying, self._has_caught_up = None, None, True

    async def _drain(self) -> None:
        """Write all that waits, and last the gap that given up rows leave."""
        is_gap_queued = False
        while self._queue.counts() or (self.given_up and not is_gap_queued):
            if not self._queue.counts():
                is_gap_queued = True
                self._queue.add({"gaps": [self._gap()]})
            rows = self._queue.first()
            await self._write_now(rows)
            self._queue.remove(rows)
            self._metrics.record_waiting(self._queue.counts().total())

    async def _write_now(self, rows: Mapping[str, list[Any]]) -> None:
        try:
            await self._store.write_once(**rows)
        except TransientError as error:
            self.fault = error
            self._metrics.record_store_failure("away")
            raise
        self._metrics.record_stored({table: len(stored) for table, stored in rows.items() if stored})

    def _add(self, rows: Mapping[str, list[Any]]) -> None:
        given_up = self._queue.add(rows)
        if given_up and not self.given_up:
            log.error(
                "rows_given_up", error=str(self.fault), detail="the memory for waiting rows is full; oldest first"
            )
        self.given_up += given_up
        self._metrics.record_given_up(given_up)
        self._metrics.record_waiting(self._queue.counts().total())

    def _gap(self) -> Gap:
        now_ns = time_ns()
        text = f"{_in_words(self.given_up)} not stored: {self.fault}"
        gap_id = stable_id("gap", ROWS_NOT_STORED, self._since_ns)
        return Gap(gap_id, ROWS_NOT_STORED, "", "", "", "store", self._since_ns, now_ns, self.given_up.total(), text)


def _in_words(rows: Counter[str]) -> str:
    return ", ".join(f"{number:,} {table}" for table, number in sorted(rows.items())) or count(0, "row")
