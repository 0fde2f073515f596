"""What a finished run does not write: the figures of a worker on Kafka, and what people say of incidents."""

from __future__ import annotations

from datetime import UTC, datetime
from time import time_ns
from typing import Final

from rules.model import Sample
from sinks.clickhouse.client import Client
from sinks.clickhouse.said import Feedback, write_feedback
from sinks.clickhouse.sink import ClickHouseSink
from stream.metrics import Metrics
from stream.scan import Scanned
from stream.throttle import Use
from tests.support.logs import the_rules

EVERY_S: Final = 300
DAY_S: Final = 86_400


def seed(client: Client) -> None:
    """Write both."""
    for incident_id, revision in client.query("SELECT incident_id, revision FROM incidents FINAL"):
        write_feedback(client, Feedback(incident_id, "ada", time_ns(), revision, "right", note="the GPU was replaced"))
    ClickHouseSink(client).write(samples=_samples_of_a_worker())


def _samples_of_a_worker() -> list[Sample]:
    """The last day (older ones are deleted by their age) of one that reads, and has trouble in its last hours."""
    metrics, samples, now_s = Metrics(), list[Sample](), int(datetime.now(UTC).timestamp())
    for time_s in range(now_s - DAY_S, now_s, EVERY_S):
        _count(metrics, has_trouble=now_s - time_s < 4 * EVERY_S)
        samples += [Sample(time_s, "n1:7", *series) for series in metrics.series()]
    return samples


def _count(metrics: Metrics, has_trouble: bool) -> None:
    metrics.note_scan("logs.raw/0", Scanned(records=3000, matched=20, dead=1))
    metrics.note_uses({the_rules().rules[0]: Use(1.0, candidates=50, hits=5, seconds=0.2, passed_over=1)})
    metrics.note_lag({"logs.raw/0": 500, "logs.raw/1": 20})
    metrics.note_behind("logs.raw/0", 1.5)
    if has_trouble:
        metrics.note_store_failure("away")
        metrics.note_trouble("corrupt-batch")
        metrics.note_lost_records("logs.raw/0", 2)
