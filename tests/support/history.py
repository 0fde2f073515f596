"""Rows of the tables that one finished run does not fill by itself: what workers count, and what people say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from sinks.clickhouse.client import Client
from stream.metrics import Metrics
from stream.scan import Scanned
from stream.throttle import Use
from tests.support.logs import the_rules

EVERY: Final = timedelta(minutes=5)

SEEDS: Final = {
    "signals": """
        INSERT INTO signals (signal_id, incident_id, event_time, onset, rule, class, severity, role, cluster, source,
            node, job, rank, gpu, text)
        SELECT lower(hex(sipHash64(link))), incident_id, parseDateTime64BestEffort(link.event_time, 9, 'UTC'),
            parseDateTime64BestEffort(link.onset, 9, 'UTC'), root_rule, link.class, severity, link.role, cluster,
            'kernel', link.node, jobs[1], link.rank, root_gpu, link.text
        FROM (
            SELECT *, arrayJoin(JSONExtract(document, 'chain', 'Array(Tuple(event_time String, onset String,
                node String, rank Nullable(Int64), class String, role String, text String))')) AS link
            FROM incidents FINAL
        )""",
    "progress": """
        INSERT INTO progress (cluster, job, minute, rank, node, first_event_time, last_event_time, first_step,
            last_step, saved_step)
        SELECT 'default', '7803', m, r, 'node0001', m, m + 50, 100 + n * 30, 120 + n * 30 - (r = 2) * n,
            intDiv(n, 3) * 90
        FROM
            (SELECT number AS n, toDateTime('2026-03-02 00:30:00') + number * 60 AS m FROM numbers(8)) AS minutes,
            (SELECT number AS r FROM numbers(4)) AS ranks""",
    "placements": """
        INSERT INTO placements (cluster, job, rank, since, node, local_rank, gpu, world_size, pod)
        SELECT 'default', '7803', number, '2026-03-02 00:30:00', 'node0001', number, '0000:1b:00', 16, 'train-7803'
        FROM numbers(4)""",
    "capacity_events": """
        INSERT INTO capacity_events (event_id, event_time, kind, cluster, job, node, pod, count, rule, text)
        SELECT concat(k, toString(number)), toDateTime64('2026-03-02 01:00:00', 9, 'UTC') + number * 900 + lag, k,
            'default', toString(9000 + number), '', '', 4, 'capacity.started', 'told'
        FROM numbers(40)
        ARRAY JOIN ['submitted', 'started', 'preempted', 'idle', 'pending'] AS k, [0, 700, 900, 20, 20] AS lag""",
    "measurements": """
        INSERT INTO measurements (cluster, name, job, node, rank, device, minute, smallest, largest)
        SELECT 'default', what, '7803', 'node0003', number % 4, '',
            toDateTime('2026-03-02 00:30:00', 'UTC') + number * 60, 50, 60
        FROM numbers(60) ARRAY JOIN ['gpu_memory_used_bytes', 'gpu_celsius'] AS what""",
    "evidence_gaps": """
        INSERT INTO evidence_gaps (gap_id, kind, cluster, node, job, source, begins, ends, records, text)
        VALUES ('g1', 'shipper-silent', 'default', 'node0003', '', '', '2026-03-02 00:30:00', '2026-03-02 00:40:00',
            NULL, 'nothing came')""",
    "deliveries": """
        INSERT INTO deliveries (notification_id, target, outcome, incident_id, revision, kind, reason, event_time,
            decided)
        SELECT incident_id, 'webhook', 'sent', incident_id, revision, 'opened', '', first_seen, first_seen
        FROM incidents FINAL""",
    "feedback": """
        INSERT INTO feedback (incident_id, who, given, revision, verdict, true_class, note)
        SELECT incident_id, 'ada', last_seen, revision, 'right', '', 'the GPU was replaced' FROM incidents FINAL""",
}
"""A statement for each table that the day leaves empty."""


def seed(client: Client) -> list[str]:
    """Fill what is empty; gives the names of the tables that were."""
    empty = [name for name in SEEDS if client.query(f"SELECT count() FROM {name}")[0][0] == 0]
    for name in empty:
        client.command(SEEDS[name])
    if client.query("SELECT count() FROM pipeline_metrics")[0][0] == 0:
        _insert_metrics(client)
        empty.append("pipeline_metrics")
    return empty


def _insert_metrics(client: Client) -> None:
    """The last day of a worker that falls behind and loses its store: what its metrics show every five minutes."""
    metrics, ends = Metrics(), datetime.now(UTC)
    when = ends - timedelta(days=1)
    columns: tuple[list[object], ...] = ([], [], [], [], [])
    while when < ends:
        _count(metrics)
        for family in text_string_to_metric_families(metrics.text().decode()):
            for sample in family.samples:
                for column, value in zip(
                    columns, (when, "n1:7", sample.name, sample.labels, sample.value), strict=True
                ):
                    column.append(value)
        when += EVERY
    types = (
        "DateTime('UTC')",
        "LowCardinality(String)",
        "LowCardinality(String)",
        "Map(LowCardinality(String), String)",
    )
    names = ("time", "process", "name", "labels", "value")
    client.insert("pipeline_metrics", columns, names, (*types, "Float64"), {})


def _count(metrics: Metrics) -> None:
    metrics.note_scan("logs.raw/0", Scanned(records=3000, matched=20, dead=1))
    metrics.note_uses({the_rules().rules[0]: Use(1.0, candidates=50, hits=5, seconds=0.2, passed_over=1)})
    metrics.note_lag({"logs.raw/0": 500, "logs.raw/1": 20})
    metrics.note_behind("logs.raw/0", 1.5)
    metrics.note_store_failure("away")
    metrics.note_trouble("corrupt-batch")
    metrics.note_lost_records("logs.raw/0", 2)
