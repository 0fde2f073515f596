"""The store at full size: inserted rows a second, and how long the queries of the page and the panels take.

`make bench-clickhouse`: an embedded store with `ROWS` matches (100,000,000) and `INCIDENTS` incidents (100,000), made
inside the engine in a temporary folder, or in `BENCH_FOLDER`, which stays for the next run. Every query runs
`BENCH_ROUNDS` times (10), without the engine's cache of conditions; those of panels over their own range of time, or
over `BENCH_RANGE` (such as 30d). One JSON document on stdout, tables on stderr.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, timedelta
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, time
from typing import Any, Final

from bench.clickhouse_fill import BIG_INCIDENT, BIG_JOB, fill, works
from bench.clickhouse_inserts import inserts
from bench.clickhouse_questions import questions
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate
from tests.support.grafana import ALL, Value, View, expanded, queries_of, read_dashboards

ROWS = int(os.environ.get("ROWS", 100_000_000))
INCIDENTS = int(os.environ.get("INCIDENTS", 100_000))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 10))
RANGE = os.environ.get("BENCH_RANGE", "")
GOAL_MS: Final = 1000.0
DASHBOARDS: Final = Path(__file__).parents[1] / "deploy" / "grafana" / "dashboards"
INTERVAL_S: Final = 300
UNITS: Final = {"m": 60, "h": 3600, "d": 86_400}
NO_CACHE: Final = " SETTINGS use_query_condition_cache = 0"

Query = Callable[[], object]


def main() -> None:
    """Make the store, or use the existing one, and run every query."""
    given_folder = os.environ.get("BENCH_FOLDER")
    folder = Path(given_folder or tempfile.mkdtemp(prefix="epicenter-bench-"))
    client = connect(f"chdb://{folder}/store")
    try:
        migrate(client)
        report: dict[str, Any] = {"rows": ROWS, "incidents": INCIDENTS, "made": made(client)}
        report["queries"] = [measured(name, query) for name, query in everything(client)]
        report["tables"] = sizes(client)
        report["inserts"] = inserted(f"chdb://{folder}/store?database=inserts")
    finally:
        client.close()
        if not given_folder:
            shutil.rmtree(folder, ignore_errors=True)
    print_tables(report)
    print(json.dumps(report, indent=1))


def inserted(dsn: str) -> list[dict[str, Any]]:
    """The speed of inserts, in a separate database: the queries must find only what was made."""
    client = connect(dsn)
    try:
        migrate(client)
        return list(inserts(client))
    finally:
        client.command("DROP DATABASE inserts")
        client.close()


def made(client: Client) -> list[dict[str, Any]]:
    """What was made and how fast; empty for an existing store."""
    if client.query("SELECT count() FROM matches")[0][0]:
        return []
    end_s, found = int(time()) // 60 * 60, []
    for work in works(ROWS, INCIDENTS):
        begun_s = perf_counter()
        fill(client, work, end_s)
        found.append({"what": work.what, "rows": work.rows, "seconds": round(perf_counter() - begun_s, 1)})
        print(found[-1], file=sys.stderr, flush=True)
    return found


def everything(client: Client) -> Iterator[tuple[str, Query]]:
    """Each query of the page and of the panels."""
    yield from questions(client)
    newest = client.query("SELECT max(minute) FROM liveness")[0][0].replace(tzinfo=UTC)
    for name, dashboard in read_dashboards(DASHBOARDS).items():
        view = View(newest - _range(RANGE or dashboard["time"]["from"]), newest, _values(), INTERVAL_S)
        for query in queries_of(name, dashboard):
            sql = expanded(query.sql, view)
            yield f"{name}: {query.where}", lambda sql=sql: client.query(sql + ("" if "SETTINGS" in sql else NO_CACHE))


def measured(name: str, query: Query) -> dict[str, Any]:
    """Milliseconds that a query takes."""
    times_ms = []
    for _ in range(ROUNDS):
        begun_s = perf_counter()
        query()
        times_ms.append((perf_counter() - begun_s) * 1000)
    p95_ms = quantiles(times_ms, n=20)[-1] if len(times_ms) > 1 else times_ms[0]
    found = {"name": name, "p50_ms": round(median(times_ms), 1), "p95_ms": round(min(p95_ms, max(times_ms)), 1)}
    print(found, file=sys.stderr, flush=True)
    return found


def sizes(client: Client) -> list[dict[str, Any]]:
    """Rows and bytes of each table on the disk."""
    found = client.query(
        "SELECT table, sum(rows), sum(bytes_on_disk), count() FROM system.parts"
        " WHERE active AND database = currentDatabase() GROUP BY table ORDER BY sum(bytes_on_disk) DESC"
    )
    return [dict(zip(("table", "rows", "bytes", "parts"), row, strict=True)) for row in found]


def print_tables(report: dict[str, Any]) -> None:
    """The figures for people."""
    for insert in report["inserts"]:
        print(f"{insert['what']:<48} {insert['rows_per_s']:>12,} rows/s", file=sys.stderr)
    slow = sorted(report["queries"], key=lambda query: -query["p95_ms"])
    for query in slow:
        late = "  over the goal" if query["p95_ms"] > GOAL_MS else ""
        print(f"{query['name'][:60]:<60} {query['p50_ms']:>9.1f} {query['p95_ms']:>9.1f} ms{late}", file=sys.stderr)
    within = sum(query["p95_ms"] <= GOAL_MS for query in slow)
    print(f"{within} of {len(slow)} queries have a p95 under {GOAL_MS:.0f} ms", file=sys.stderr)


def _range(text: str) -> timedelta:
    number, unit = text.removeprefix("now-")[:-1], text[-1]
    return timedelta(seconds=int(number) * UNITS[unit])


def _values() -> dict[str, Value]:
    chosen: Sequence[str] = ("cluster", "class", "severity", "node")
    fixed = {"job": BIG_JOB, "incident_id": BIG_INCIDENT, "page_url": "http://127.0.0.1:8017"}
    return {**dict.fromkeys(chosen, ALL), **fixed}


if __name__ == "__main__":
    main()
