"""Rows wait while the store fails, in order and within bounds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import pytest
import stamina

from epicenter.rules.errors import RejectedError, TransientError
from epicenter.sinks.clickhouse.errors import StoreFullError
from epicenter.stream.local.queued_writes import QueuedWrites
from epicenter.stream.local.write_queue import MAX_ROWS_A_WRITE
from epicenter.stream.metrics import Metrics
from epicenter.stream.store.thread import Store

FULL = "chdb:store: the disk of the store is full: free some space"


class FakeStore:
    """Holds rows by table; raises `fault` while there is one."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.rows: dict[str, list[Any]] = {}
        self.largest_write = 0

    async def write_once(self, **rows: list[Any]) -> None:
        """Take the rows, or fail."""
        await asyncio.sleep(0)
        if self.fault:
            raise self.fault
        for table, added in rows.items():
            self.rows.setdefault(table, []).extend(added)
            self.largest_write = max(self.largest_write, len(added))


@pytest.fixture
def store() -> Iterator[FakeStore]:
    """A store that is full; retries of the test don't pause."""
    with stamina.set_testing(True, attempts=1_000_000):
        store = FakeStore()
        store.fault = StoreFullError("chdb:store")
        yield store


def writes_to(store: FakeStore, max_bytes: int = 1 << 20) -> tuple[QueuedWrites, Metrics]:
    metrics = Metrics()
    return QueuedWrites(cast(Store, store), metrics, max_bytes), metrics


async def caught_up(writes: QueuedWrites) -> None:
    async with asyncio.timeout(20):
        while writes.is_behind:
            await asyncio.sleep(0)


def value(metrics: Metrics, name: str) -> float:
    return sum(number for series, _, number in metrics.series() if series == name)


async def test_rows_that_waited_are_stored_in_order_before_later_ones(store: FakeStore) -> None:
    writes, metrics = writes_to(store)
    await writes.write(matches=["m1"], incidents=["i1"])
    await writes.write(matches=["m2"])
    assert (writes.is_behind, writes.is_disk_full) == (True, True)
    assert writes.problem == f"{FULL}; waiting in memory: 1 incidents, 2 matches"
    assert value(metrics, "epicenter_waiting_rows") == 3
    store.fault = None
    await caught_up(writes)
    await writes.write(matches=["m3"])
    assert store.rows == {"matches": ["m1", "m2", "m3"], "incidents": ["i1"]}
    assert (writes.problem, value(metrics, "epicenter_waiting_rows")) == ("", 0)
    assert (writes.take_caught_up(), writes.take_caught_up()) == (True, False)


async def test_what_finds_no_room_in_memory_is_counted_and_leaves_a_gap(store: FakeStore) -> None:
    writes, metrics = writes_to(store, max_bytes=1_000)
    lines = [f"{number:099}" for number in range(25)]
    await writes.write(incidents=["i1"])
    for line in lines:
        await writes.write(matches=[line])
    kept = [row for row in lines if row in lines[-9:]]
    assert writes.given_up == Counter(matches=16)
    assert "16 matches given up" in writes.problem
    store.fault = None
    await caught_up(writes)
    (gap,) = store.rows.pop("gaps")
    assert store.rows == {"incidents": ["i1"], "matches": kept}
    assert (gap.kind, gap.records, gap.text) == ("rows-not-stored", 16, f"16 matches not stored: {FULL}")
    assert value(metrics, "epicenter_given_up_rows_total") == 16
    assert writes.given_up == Counter()


async def test_a_long_queue_is_written_in_pieces(store: FakeStore) -> None:
    writes, _ = writes_to(store)
    rows = list(range(2 * MAX_ROWS_A_WRITE + 1))
    await writes.write(samples=rows)
    store.fault = None
    await caught_up(writes)
    assert (store.rows, store.largest_write) == ({"samples": rows}, MAX_ROWS_A_WRITE)


async def test_the_end_reports_what_is_not_stored(store: FakeStore) -> None:
    writes, _ = writes_to(store)
    await writes.write(matches=["m1"], incidents=["i1", "i2"])
    with pytest.raises(TransientError, match=f"{FULL}; not stored: 2 incidents, 1 matches; the next run"):
        await writes.finish()


async def test_the_end_stores_what_waited_once_there_is_room(store: FakeStore) -> None:
    writes, _ = writes_to(store)
    await writes.write(matches=["m1"])
    store.fault = None
    await writes.finish()
    assert store.rows == {"matches": ["m1"]}


async def test_a_refusal_of_queued_rows_reaches_the_next_write(store: FakeStore) -> None:
    writes, _ = writes_to(store)
    await writes.write(matches=["m1"])
    store.fault = RejectedError("never")
    with pytest.raises(RejectedError, match="never"):
        async with asyncio.timeout(20):
            while True:
                await writes.write(matches=["m2"])
                await asyncio.sleep(0)
