"""What a finished run does not write: a Kafka worker's metrics, deliveries to an unreachable target, feedback."""

from __future__ import annotations

from datetime import UTC, datetime
from time import time_ns
from typing import Final

from epicenter.rules.model.ledger import Delivery, Outcome, Sample
from epicenter.rules.model.records import Match
from epicenter.rules.model.signals import TEMPLATE_FIELD
from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from epicenter.rules.packs.spec import RuleSpec
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.operator_actions import Feedback, write_feedback
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.stream.metrics import Metrics
from epicenter.stream.scan.rule_budget import Use
from epicenter.stream.scan.scan import ScanResult
from tests.support.logs import the_rules
from tests.support.signals import a_match

EVERY_S: Final = 300
DAY_S: Final = 86_400
COSTLY_RULE: Final = "drbd.failed"
"""No line of the simulation is a candidate of it."""


def seed(client: Client) -> None:
    """Write it all."""
    for incident_id, revision in client.query("SELECT incident_id, revision FROM incidents FINAL"):
        write_feedback(client, Feedback(incident_id, "ada", time_ns(), revision, "right", note="the GPU was replaced"))
    ClickHouseSink(client).write(
        matches=[_an_unnamed_line()],
        samples=_samples_of_a_worker(),
        deliveries=_deliveries_to_an_unreachable_target(),
    )


def _an_unnamed_line() -> tuple[Match, RuleSpec]:
    fields = {TEMPLATE_FIELD: "ERROR lampd: the lamp of shaft <number> went out"}
    match = a_match("unnamed.failure", 3600, "n1", "A", "ERROR lampd: the lamp of shaft 7 went out", fields=fields)
    return match, the_rules().spec_of(match)


def _deliveries_to_an_unreachable_target() -> list[Delivery]:
    """An hour ago three messages had to wait for it: one was sent 90 s after its event, one refused, one waits."""
    became = (("a", "waits"), ("b", "waits"), ("c", "waits"), ("a", "sent"), ("b", "refused"))
    decided_ns = time_ns() - 3600 * NS_PER_S
    event_time = iso_from_ns(decided_ns - 90 * NS_PER_S)
    return [
        Delivery(
            f"{name}-opened", "pager", Outcome(outcome), "none", 1, "opened", event_time, "it answers 503", decided_ns
        )
        for name, outcome in became
    ]


def _samples_of_a_worker() -> list[Sample]:
    """The last day (older ones are deleted by their age) of a worker with faults in its last minutes."""
    metrics, samples, now_s = Metrics(), list[Sample](), int(datetime.now(UTC).timestamp())
    for time_s in range(now_s - DAY_S, now_s, EVERY_S):
        _count(metrics, has_faults=now_s - time_s < 4 * EVERY_S)
        samples += [Sample(time_s, "n1:7", *series) for series in metrics.series()]
    return samples


def _count(metrics: Metrics, has_faults: bool) -> None:
    metrics.record_scan("logs.raw/0", ScanResult(records=3000, matched=20, dead=1))
    metrics.record_uses({the_rules().by_id[COSTLY_RULE]: Use(1.0, candidates=50, hits=5, seconds=0.2, skipped=1)})
    metrics.record_lag({"logs.raw/0": 500, "logs.raw/1": 20})
    metrics.record_newest_age("logs.raw/0", 1.5)
    if has_faults:
        metrics.record_store_failure("away")
        metrics.record_fault("corrupt-batch")
        metrics.record_lost_records("logs.raw/0", 2)
