"""A day written once, and again in other pieces and in another order: no query shows a difference."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from epicenter.rules.packs.recorded import CAPACITY_KINDS
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from tests.support.written_day import a_day, rows_of, shuffled
from tests.unit.sinks.clickhouse.test_rows import TABLES

pytestmark = pytest.mark.integration

FILLED = sorted(set(TABLES) - {"dead_letter_replays", "dead_letters"})
RATES = "SELECT cluster, hour, rule, node, uniqCombinedMerge(12)(lines) FROM match_rates GROUP BY ALL ORDER BY ALL"


@pytest.fixture(scope="module", params=["embedded", "server"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    if request.param == "embedded":
        dsn = f"chdb://{tmp_path_factory.mktemp('twice')}/store"
    else:
        dsn = urlsplit(request.getfixturevalue("clickhouse").dsn)._replace(path="/twice").geturl()
    client = connect(dsn)
    migrate(client)
    yield client
    client.close()


@pytest.fixture(scope="module")
def once(client: Client) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of a day that was written once."""
    sink = ClickHouseSink(client, retry_for_s=0)
    for piece in a_day():
        sink.write(**piece)
    return rows_of(client, FILLED)


def test_every_table_has_rows(once: dict[str, list[tuple[Any, ...]]]) -> None:
    assert [table for table in FILLED if not once[table]] == []


@pytest.mark.parametrize("seed", [1])
def test_a_day_written_again_in_other_pieces_and_order_changes_nothing(
    client: Client, once: dict[str, list[tuple[Any, ...]]], seed: int
) -> None:
    rates = client.query(RATES)
    sink = ClickHouseSink(client, retry_for_s=0)
    for piece in shuffled(a_day(), Random(seed).shuffle):
        sink.write(**piece)
    again = rows_of(client, FILLED)
    assert [table for table in FILLED if again[table] != once[table]] == []
    assert client.query(RATES) == rates
    for table in FILLED:
        client.command(f"OPTIMIZE TABLE {table} FINAL")
    assert [table for table, rows in rows_of(client, FILLED).items() if rows != once[table]] == []


@pytest.mark.usefixtures("once")
class TestTheDay:
    def test_each_signal_is_in_the_incident_that_counts_it(self, client: Client) -> None:
        counted = client.query("SELECT incident_id, signal_count FROM incidents FINAL ORDER BY ALL")
        listed = client.query("SELECT incident_id, count() FROM signals FINAL GROUP BY incident_id ORDER BY ALL")
        assert counted == listed

    def test_a_search_finds_the_incident_by_words_of_its_lines(self, client: Client) -> None:
        found = client.query("SELECT class FROM incidents FINAL WHERE words LIKE '%fallen off the bus%'")
        assert ("xid-79",) in found

    def test_progress_is_by_rank(self, client: Client) -> None:
        query = "SELECT rank, node, min(first_step), max(last_step) FROM progress FINAL GROUP BY ALL ORDER BY ALL"
        assert [row for row in client.query(query) if row[0] >= 0] == [(0, "n1", 1, 39), (1, "n2", 1, 39)]

    def test_places_are_those_of_the_banners(self, client: Client) -> None:
        query = "SELECT job, rank, node, world_size FROM placements FINAL WHERE rank >= 0 ORDER BY rank"
        assert client.query(query) == [("A", 0, "n1", 2), ("A", 1, "n2", 2)]

    def test_capacity_events_are_of_known_kinds(self, client: Client) -> None:
        query = "SELECT kind, count(), max(count) FROM capacity_events FINAL GROUP BY kind ORDER BY kind"
        found = {kind: (events, most) for kind, events, most in client.query(query)}
        assert found.keys() <= set(CAPACITY_KINDS)
        assert {kind: found[kind] for kind in ("submitted", "queued", "pending", "idle", "started", "preempted")} == {
            "submitted": (24, 1),
            "queued": (24, 1),
            "pending": (24, 1),
            "idle": (24, 4),
            "started": (24, 1),
            "preempted": (24, 1),
        }

    def test_measurements_are_in_their_units(self, client: Client) -> None:
        query = (
            "SELECT name, rank, device, min(smallest), max(largest) FROM measurements FINAL GROUP BY ALL ORDER BY ALL"
        )
        found = client.query(query)
        assert ("gpu_memory_used_bytes", 0, "", 40_001 * 2**20, 40_039 * 2**20) in found
        assert ("gpu_celsius", -1, "3", 60, 66) in found

    def test_gaps_have_the_number_of_missing_lines_where_it_is_known(self, client: Client) -> None:
        query = "SELECT kind, count(), max(records) FROM evidence_gaps FINAL GROUP BY kind ORDER BY kind"
        found = client.query(query)
        assert ("lines-dropped", 24, None) in found
        assert ("overwritten", 24, 412) in found
