"""How the sink retries; the store itself is tested in `tests/integration`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stamina

from epicenter.rules.errors import RejectedError, TransientError
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from tests.unit.sinks.clickhouse.test_rows import XidFacts, a_match, an_incident


class FlakyClient:
    """A store that is unavailable for the first calls, and records the tokens."""

    address = "flaky"
    is_embedded = True

    def __init__(self, failures: int, error: Exception | None = None):
        self.failures = failures
        self.error = error or TransientError("away")
        self.tables: list[str] = []
        self.tokens: list[str] = []
        self.settings: dict[str, Any] = {}

    def insert(self, table: str, columns: Any, names: Any, types: Any, settings: dict[str, Any]) -> None:
        self.tables.append(table)
        self.settings = settings
        self.tokens.append(settings["insert_deduplication_token"])
        if len(self.tokens) <= self.failures:
            raise self.error


@pytest.fixture
def _no_retry_delay() -> Iterator[None]:
    with stamina.set_testing(True, attempts=5):
        yield


@pytest.mark.usefixtures("_no_retry_delay")
def test_retry_sends_the_same_deduplication_token() -> None:
    flaky: Any = FlakyClient(failures=3)
    ClickHouseSink(flaky).write(matches=[(a_match(), XidFacts())])
    assert len(flaky.tokens) == 4
    assert len(set(flaky.tokens)) == 1


@pytest.mark.usefixtures("_no_retry_delay")
def test_unavailable_store_raises_after_the_retries() -> None:
    flaky: Any = FlakyClient(failures=99)
    with pytest.raises(TransientError, match="away"):
        ClickHouseSink(flaky).write(matches=[(a_match(), XidFacts())])
    assert len(flaky.tokens) == 1 + 5


@pytest.mark.usefixtures("_no_retry_delay")
def test_a_full_standard_output_stops_no_retry(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        flaky: Any = FlakyClient(failures=2)
        ClickHouseSink(flaky).write(matches=[(a_match(), XidFacts())])
    assert len(flaky.tokens) == 3
    assert [record.getMessage() for record in caplog.records if "store_write_retried" in record.getMessage()]


def test_zero_retry_time_means_one_attempt() -> None:
    flaky: Any = FlakyClient(failures=99)
    with pytest.raises(TransientError):
        ClickHouseSink(flaky, retry_for_s=0).write(matches=[(a_match(), XidFacts())])
    assert len(flaky.tokens) == 1


def test_a_write_leaves_nothing_to_the_garbage_collector() -> None:
    client: Any = FlakyClient(failures=0)
    sink = ClickHouseSink(client)
    gc.collect()
    for _ in range(10):
        sink.write(incidents=[an_incident()])
    assert gc.collect() == 0


def test_rejected_batch_is_not_retried() -> None:
    flaky: Any = FlakyClient(failures=99, error=RejectedError("never"))
    with pytest.raises(RejectedError):
        ClickHouseSink(flaky).write(matches=[(a_match(), XidFacts())])
    assert len(flaky.tables) == 1


def test_only_tables_with_rows_are_written() -> None:
    flaky: Any = FlakyClient(failures=0)
    sink = ClickHouseSink(flaky)
    sink.write()
    assert flaky.tables == []
    sink.write(incidents=[an_incident()])
    assert flaky.tables == ["incident_revisions", "incidents"]


@pytest.mark.parametrize(("is_embedded", "expected"), [(True, 0), (False, 1)], ids=["embedded", "server"])
def test_small_inserts_are_asynchronous_and_awaited(is_embedded: bool, expected: int) -> None:
    flaky: Any = FlakyClient(failures=0)
    flaky.is_embedded = is_embedded
    ClickHouseSink(flaky).write(incidents=[an_incident()])
    assert flaky.settings["async_insert"] == expected
    assert flaky.settings["wait_for_async_insert"] == 1
