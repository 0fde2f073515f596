"""A store with a month of a large fleet, made inside the engine by the statements of `clickhouse_fill.sql`.

The newest rows are of the minute in which they are made. 2,000 nodes in two clusters; a few fail far more often than
the others; each has a few kinds of failure. One job has 4,096 ranks, and one incident 65,536 signals.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.signals import QUIET_ROLES
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.load import load
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.migrate import statements_of
from epicenter.sinks.clickhouse.rows import incident_rows
from tests.support.written_day import a_day

STATEMENTS: Final = Path(__file__).with_suffix(".sql")
DAYS: Final = 30
NODES: Final = 2_000
KINDS: Final = 200
MINUTES: Final = 360
SERIES: Final = 600
CHUNK_ROWS: Final = 5_000_000
BIG_JOB: Final = "880000"
BIG_RANKS: Final = 4_096
BIG_INCIDENT: Final = "b16b16b16b16b16b"


class Work(msgspec.Struct, frozen=True):
    """What a statement makes, in chunks of `CHUNK_ROWS`; 0 rows where it derives them from another table."""

    what: str
    sql: str
    rows: int


def works(matches: int, incidents: int) -> Iterator[Work]:
    """Everything to make, in order."""
    rows = {
        "matches": matches,
        "incidents": incidents,
        "progress": BIG_RANKS * MINUTES,
        "progress of other jobs": 100 * 1440 * DAYS,
        "liveness": NODES * 1440 * 3,
        "placements": BIG_RANKS * 50,
        "capacity_events": 500_000,
        "measurements": BIG_RANKS * MINUTES,
        "temperatures": 8 * NODES * 288,
        "evidence_gaps": 20_000,
        "pipeline_metrics": SERIES * 4 * 1440 * 2,
    }
    for statement in statements_of(STATEMENTS.read_text("utf-8")):
        what = statement.why.partition(":")[0]
        yield Work(what, statement.sql, rows.get(what, 0))


def fill(client: Client, work: Work, end_s: int) -> None:
    """Make the rows up to the second `end_s`."""
    given = _given(work.rows, end_s)
    for first in range(0, max(work.rows, 1), CHUNK_ROWS):
        chunk = {"first": str(first), "rows": str(min(CHUNK_ROWS, work.rows - first))}
        client.command(_with(work.sql, given | chunk))


def _given(rows: int, end_s: int) -> dict[str, str]:
    kinds, incident = _kinds(), _a_long_incident()
    made = incident_rows([incident])
    row = {name: column[0] for name, column in zip(made.names, made.columns, strict=True)}
    return {
        "nodes": str(NODES),
        "minutes": str(MINUTES),
        "series": str(SERIES),
        "big_job": BIG_JOB,
        "big_ranks": str(BIG_RANKS),
        "big_incident": BIG_INCIDENT,
        "big_signals": str(1 << 16),
        "rules": "[" + ", ".join(f"({', '.join(map(_quoted, kind))})" for kind in kinds) + "]",
        "kinds": str(len(kinds)),
        "begin_ns": str((end_s - DAYS * 86_400) * NS_PER_S),
        "step_ns": repr(DAYS * 86_400 * NS_PER_S / max(rows, 1)),
        "end_s": str(end_s),
        "all": str(rows),
        "document": _quoted(row["document"]),
        "words": _quoted(row["words"]),
        "known_id": _quoted(incident.incident_id),
    }


def _kinds() -> list[tuple[str, ...]]:
    """Rule, class, severity, role and source of rules of the catalogue, those of Xids first."""
    rules = [rule.spec for rule in load().all_rules if rule.spec.role not in QUIET_ROLES]
    fixed = sorted((rule for rule in rules if "{" not in rule.failure_class), key=lambda rule: rule.id)
    fixed.sort(key=lambda rule: not rule.failure_class.startswith("xid-"))
    return [(rule.id, rule.failure_class, rule.severity, rule.role, rule.source) for rule in fixed[:KINDS]]


def _a_long_incident() -> Incident:
    incidents: list[Incident] = [incident for piece in a_day() for incident in piece.get("incidents", ())]
    return max(incidents, key=lambda incident: len(msgspec.json.encode(incident)))


def _with(sql: str, given: dict[str, str]) -> str:
    for name, value in given.items():
        sql = sql.replace(f"{{{name}}}", value)
    return sql


def _quoted(text: Any) -> str:
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"
