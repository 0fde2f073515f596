"""Every query of every dashboard, on the real engine, over a simulated day that the product processed."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from epicenter.sinks.clickhouse.client import Client, connect
from tests.support.day import END, FAULTS, OFFENDER, START, WAITS, Day, ingest_day, write_day
from tests.support.grafana import ALL, Query, View, expanded, queries_of, read_dashboards
from tests.support.history import COSTLY_RULE, seed

pytestmark = pytest.mark.integration

DASHBOARDS: Final = read_dashboards(Path(__file__).parents[2] / "deploy" / "grafana" / "dashboards")
QUERIES: Final = [query for name, dashboard in DASHBOARDS.items() for query in queries_of(name, dashboard)]

EMPTY: Final = {
    ("incident", "Similar incidents before this one [A]"): "the first incident of the day has none before it",
    ("job", "Ranks seen [A]"): "Megatron lets one rank report its steps",
    ("job", "Spread of the ranks [A]"): "Megatron lets one rank report its steps",
    ("job", "Ranks behind or silent [A]"): "Megatron lets one rank report its steps",
}
"""Panels that have nothing to show of that day, and why."""

FEW_ROWS: Final = {("fleet", "By severity [A]"), ("fleet", "Time between failures, by size of job [A]")}
"""Tables that have few rows by their nature."""

NOT_FILLED: Final = {"acknowledgements", "feedback", "silences", "dead_letter_replays"}
"""Tables that only people fill. The test adds feedback and the metrics of a worker that lags behind Kafka."""


class Stored(msgspec.Struct, frozen=True):
    """The day, the store with it, and the tables that the run filled."""

    day: Day
    client: Client
    filled: set[str]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("day")
    day = write_day(folder / "logs")
    settings = asyncio.run(ingest_day(day, folder / "data"))
    client = connect(settings.store_dsn)
    filled = filled_tables(client)
    seed(client)
    double(client)
    yield Stored(day, client, filled)
    client.close()


def tables_of(client: Client) -> list[str]:
    tables = "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'"
    return [name for (name,) in client.query(tables)]


def filled_tables(client: Client) -> set[str]:
    return {table for table in tables_of(client) if client.query(f"SELECT count() FROM {table}") != [(0,)]}


def double(client: Client) -> None:
    """Insert every row again, as after a replay in other batches: no panel may count it."""
    for table in tables_of(client):
        client.command(f"SYSTEM STOP MERGES {table}")
        client.command(f"INSERT INTO {table} SELECT * FROM {table} SETTINGS insert_deduplicate = 0")


def a_view(stored: Stored, **values: Any) -> View:
    """The whole day, everything chosen, with its first failure and that failure's job."""
    (found,) = stored.client.query("SELECT argMin(incident_id, first_seen) FROM incidents FINAL")
    chosen = {"job": stored.day.failures[0].jobs[0], "incident_id": found[0], "page_url": "http://127.0.0.1:8017"}
    return View(START, END, {"cluster": ALL, "class": ALL, "severity": ALL, "node": ALL, **chosen, **values})


def rows_of(stored: Stored, dashboard: str, title: str, view: View | None = None) -> list[tuple[Any, ...]]:
    """The rows of a panel, variable or annotation; of several queries the first."""
    query = next(query for query in QUERIES if query.dashboard == dashboard and query.where.startswith(title))
    return stored.client.query(expanded(query.sql, view or a_view(stored)))


def named(query: Query) -> str:
    return f"{query.dashboard}: {query.where}"


@pytest.mark.parametrize("query", QUERIES, ids=named)
def test_a_query_runs_and_has_rows_unless_its_panel_is_empty(query: Query, stored: Stored) -> None:
    view = a_view(stored)
    if re.search("pipeline_metrics|received|decided", query.sql):
        view = msgspec.structs.replace(view, ends=datetime.now(UTC) + timedelta(minutes=1))
    rows = stored.client.query(expanded(query.sql, view))
    has_something = any(value for row in rows for value in row)
    assert has_something == ((query.dashboard, query.where) not in EMPTY)


@pytest.mark.parametrize("query", QUERIES, ids=named)
def test_a_query_accepts_chosen_and_hostile_values(query: Query, stored: Stored) -> None:
    ill = "\\' OR 1=1 -- ${job} $__toTime {x:String} '"
    chosen = {"cluster": ["default", "it's"], "class": ["xid-79"], "severity": ["critical", "error"]}
    view = a_view(stored, node=["node0003", "o'node"], **chosen)
    stored.client.query(expanded(query.sql, view))
    rows = stored.client.query(expanded(query.sql, a_view(stored, job=ill, incident_id=ill)))
    if "percentencode" in query.sql and query.where != "Similar incidents before this one [A]":
        assert not any(value for row in rows for value in row if value is not None)


@pytest.mark.parametrize("query", [query for query in QUERIES if query.format == 0], ids=named)
def test_a_time_series_has_its_sorted_time_first_and_then_numbers(query: Query, stored: Stored) -> None:
    sql = expanded(query.sql, a_view(stored))
    columns = stored.client.query(f"DESCRIBE ({sql})")
    assert columns[0][0] == "time"
    assert re.fullmatch(r"DateTime(64)?(\(.*\))?", columns[0][1]), columns[0]
    for name, kind, *_ in columns[1:]:
        assert re.search("Int|Float|String", kind) and not re.search("Array|Tuple|Map", kind), name
    times = [row[0] for row in stored.client.query(sql)]
    assert times == sorted(times)


@pytest.mark.parametrize("query", QUERIES, ids=named)
def test_a_query_is_bounded_and_names_its_columns(query: Query, stored: Stored) -> None:
    assert "SELECT *" not in query.sql
    assert "--" not in query.sql, "the plugin does not know comments"
    if "incident_id = " not in query.sql:
        assert re.search(r"\$__(timeFilter|fromTime|toTime)|status = 'open'", query.sql)
    if query.format == 1 and (query.dashboard, query.where) not in FEW_ROWS and "LIMIT" not in query.sql:
        assert len(stored.client.query(expanded(query.sql, a_view(stored)))) == 1


@pytest.mark.parametrize("length", [timedelta(minutes=5), timedelta(days=90)], ids=["minutes", "months"])
def test_every_query_accepts_short_and_long_time_ranges(length: timedelta, stored: Stored) -> None:
    view = msgspec.structs.replace(
        a_view(stored), begins=END - length, interval_s=max(1, int(length / timedelta(hours=1)))
    )
    for query in QUERIES:
        stored.client.query(expanded(query.sql, view))


def test_every_row_is_stored_twice(stored: Stored) -> None:
    (counts,) = stored.client.query("SELECT count(), uniqExact(match_id) FROM matches")
    assert counts[0] >= 2 * counts[1] > 0


def test_the_run_fills_every_table_but_those_of_operator_actions(stored: Stored) -> None:
    tables = {table for table in tables_of(stored.client) if table != "schema_migrations"}
    assert tables - stored.filled == NOT_FILLED


# ---- the truth of the day --------------------------------------------------------------------------------------------


def test_fleet_counts_the_true_failures(stored: Stored) -> None:
    preempted_jobs, malformed_lines = 3, 2
    opened = len(stored.day.failures) + preempted_jobs + malformed_lines
    preemptions = preempted_jobs + sum(fault.fault == "slurm-preempted" for fault in stored.day.failures)
    of_no_job = 2
    assert rows_of(stored, "fleet", "Opened in this time") == [(opened,)]
    assert rows_of(stored, "fleet", "Time between failures [") == [(86400 / (opened - preemptions - of_no_job),)]


def test_fleet_names_the_node_and_the_gpu_that_fail_again(stored: Stored) -> None:
    causes = Counter((fault.node, fault.gpu) for fault in stored.day.failures)
    assert causes[OFFENDER] == 4
    (gpu, *others) = rows_of(stored, "fleet", "GPUs that fail again")
    assert (gpu[:3], others) == ((*OFFENDER, 4), [])
    nodes = {row[0]: row[1] for row in rows_of(stored, "fleet", "Nodes that fail again")}
    assert max(nodes, key=lambda node: nodes[node]) == OFFENDER[0]
    assert nodes[OFFENDER[0]] == 4


def test_fleet_shows_the_open_incidents_at_the_end_of_the_day(stored: Stored) -> None:
    last = stored.day.failures[-1]
    assert rows_of(stored, "fleet", "Open incidents") == [(1,)]
    (row,) = rows_of(stored, "fleet", "Open now")
    assert (row[3], row[4], row[5]) == (last.failure_class, last.node, last.gpu)


def test_annotations_mark_each_job_start_and_escape_html(stored: Stored) -> None:
    starts = rows_of(stored, "node", "annotation Job starts")
    assert len(starts) == sum(len(truth.jobs) for truth in stored.day.truths)
    texts = [
        row[1] for name in ("opened", "resolved") for row in rows_of(stored, "fleet", f"annotation Incidents {name}")
    ]
    assert [text for text in texts if "node&lt;b&gt;" in text]
    assert not [text for text in texts if "<" in text]


def test_incident_shows_the_right_cause(stored: Stored) -> None:
    for fault in stored.day.failures:
        view = a_view(stored, incident_id=incident_of(stored, fault.jobs[0]))
        (shown,) = rows_of(stored, "incident", "What happened", view)
        names = ("severity", "status", "title", "confidence", "class", "node", "gpu", "rank")
        found = dict(zip(names, shown, strict=False))
        assert found["class"] in (fault.failure_class, *fault.also_ok), fault.fault
        assert (fault.node in (found["node"], ""), fault.gpu in (found["gpu"], "")) == (True, True), fault.fault
        chain = rows_of(stored, "incident", "The chain", view)
        assert chain[0][1] == 0
        assert [row[0] for row in chain] == sorted(row[0] for row in chain)


def test_incident_shows_the_root_first_and_then_the_others(stored: Stored) -> None:
    rows = rows_of(stored, "incident", "Which node reported when")
    nodes_by_time: dict[Any, set[str]] = {}
    for time, who, severity in rows:
        nodes_by_time.setdefault(time, set()).add(who)
        assert 1 <= severity <= 4
    first, *_, last = nodes_by_time.values()
    assert first == {OFFENDER[0]}
    assert last >= set(stored.day.failures[0].nodes)


def test_incident_lists_similar_incidents_of_the_same_gpu(stored: Stored) -> None:
    first, second = (fault for fault in stored.day.failures if fault.fault == "gpu-off-bus")
    view = a_view(stored, incident_id=incident_of(stored, second.jobs[0]))
    (similar,) = rows_of(stored, "incident", "Similar incidents", view)
    assert similar[-1] == incident_of(stored, first.jobs[0])
    assert similar[4] == 1


def test_incident_shows_the_gap_in_its_evidence(stored: Stored) -> None:
    gaps = [row for row in rows_of(stored, "incident", "Missing evidence") if row[0] == "overwritten"]
    assert [(row[3], row[5]) for row in gaps] == [("node0003", "** 41 printk messages dropped **")]


def test_incident_shows_its_notifications(stored: Stored) -> None:
    view = a_view(stored, incident_id=incident_of(stored, stored.day.failures[-1].jobs[0]))
    assert [row[1:4] for row in rows_of(stored, "incident", "Notifications", view)] == [("opened", "webhook", "sent")]


def test_job_shows_a_hang(stored: Stored) -> None:
    (job,) = (fault.jobs[0] for fault in stored.day.failures if fault.fault == "hang")
    view = a_view(stored, job=job)
    world_size = next(run.world_size for truth in stored.day.truths for run in truth.jobs if run.job == job)
    assert rows_of(stored, "job", "Ranks seen", view) == [(world_size,)]
    ranks = rows_of(stored, "job", "Ranks behind or silent", view)
    assert sorted(row[0] for row in ranks) == list(range(world_size))
    expected = rows_of(stored, "job", "Steps, actual and expected [B]", view)
    actual = rows_of(stored, "job", "Steps, actual and expected [A]", view)
    assert expected[-1][0] > actual[-1][0]
    assert expected[-1][1] > 2 * (actual[-1][1] - expected[0][1]) + expected[0][1]


def test_job_shows_which_memory_grows(stored: Stored) -> None:
    rows = rows_of(stored, "job", "Memory of the GPUs")
    assert {row[2] for row in rows} == {41.2e9}
    assert rows[-1][1] == 41.2e9 + 59 * 300e6


def test_capacity_shows_the_waits(stored: Stored) -> None:
    waits = sorted((wait.started - wait.submitted).total_seconds() for wait in WAITS if wait.started < END)
    still = [wait for wait in WAITS if wait.started >= END]
    assert still
    assert rows_of(stored, "capacity", "Wait, median") == [(waits[len(waits) // 2],)]
    assert rows_of(stored, "capacity", "Waiting at the end") == [(len(still),)]
    by_job = {row[0]: row[1:3] for row in rows_of(stored, "capacity", "Longest waits")}
    assert by_job[str(still[-1].job)] == ((END - still[-1].submitted).total_seconds(), "waits")
    by_hour = rows_of(stored, "capacity", "Demand by hour")
    assert sum(row[1] for row in by_hour) == len(WAITS)


def test_capacity_counts_each_preemption_once(stored: Stored) -> None:
    queue = {str(wait.job) for wait in WAITS if wait.is_preempted and wait.started < END - timedelta(minutes=20)}
    faults = {job for fault in stored.day.failures if fault.fault == "slurm-preempted" for job in fault.jobs}
    assert rows_of(stored, "capacity", "Preemptions [") == [(len(queue | faults),)]
    assert {row[0] for row in rows_of(stored, "capacity", "Preempted jobs")} == queue | faults


def test_pipeline_counts_store_failures_losses_lag_and_rule_costs(stored: Stored) -> None:
    now = datetime.now(UTC)
    view = msgspec.structs.replace(a_view(stored), begins=now - timedelta(hours=2), ends=now)
    assert rows_of(stored, "pipeline", "Store failures", view) == [(3,)]
    assert rows_of(stored, "pipeline", "Lost for good", view) == [(6,)]
    assert rows_of(stored, "pipeline", "Lag [", view) == [(520,)]
    rules = {row[0]: row for row in rows_of(stored, "pipeline", "What rules cost", view)}
    rule = rules[COSTLY_RULE]
    assert (rule[2] / rule[3], rule[2] / rule[4]) == (10, 50)


def test_pipeline_shows_the_notifications_that_wait_for_a_target(stored: Stored) -> None:
    now = datetime.now(UTC) + timedelta(minutes=1)
    view = msgspec.structs.replace(a_view(stored), begins=now - timedelta(hours=2), ends=now)
    assert [(row[0], row[1], row[3]) for row in rows_of(stored, "pipeline", "Waiting notifications", view)] == [
        ("pager", 1, "it answers 503")
    ]
    deliveries = Counter[str]()
    for _, name, count in rows_of(stored, "pipeline", "Deliveries, by target", view):
        deliveries[name] += count
    pager = {name: count for name, count in deliveries.items() if name.startswith("pager ")}
    assert pager == {"pager waits": 3, "pager sent": 1, "pager refused": 1}
    assert sum(deliveries.values()) > sum(pager.values())
    assert rows_of(stored, "pipeline", "From event to notification", view)[0][1:] == (90.0, 90.0)


def test_node_shows_every_xid_of_the_offender(stored: Stored) -> None:
    rows = rows_of(stored, "node", "Xid errors, node by node", a_view(stored, node=[OFFENDER[0]]))
    hours = {int(hour) for hour, fault, seed in FAULTS if fault in ("gpu-off-bus", "gpu-memory-error")}
    assert {row[0].hour for row in rows} == hours
    assert {row[1] for row in rows} == {OFFENDER[0]}


def test_log_text_is_sanitized_and_bounded(stored: Stored) -> None:
    (found,) = stored.client.query("SELECT incident_id FROM incidents FINAL WHERE root_node = 'node0008'")
    view = a_view(stored, incident_id=found[0])
    texts = [text for query in QUERIES if "p{Cc}" in query.sql for text in shown_texts(stored, query, view)]
    assert [text for text in texts if "<script>" in text]
    assert not [text for text in texts if re.search("[\x00-\x1f\u202e]", text) or len(text) > 420]


def shown_texts(stored: Stored, query: Query, view: View) -> list[str]:
    """The query's values in columns of free text, without the names of nodes and jobs."""
    sql = expanded(query.sql, view)
    names = [row[0] for row in stored.client.query(f"DESCRIBE ({sql})")]
    free = [place for place, name in enumerate(names) if name not in ("job", "node", "incident_id")]
    return [row[place] for row in stored.client.query(sql) for place in free if isinstance(row[place], str)]


def incident_of(stored: Stored, job: str) -> str:
    (found,) = stored.client.query(
        "SELECT incident_id FROM incidents FINAL WHERE merged_into = '' AND has(jobs, {job:String})", {"job": job}
    )
    return str(found[0])
