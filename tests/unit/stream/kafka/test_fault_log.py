"""How Kafka faults are counted, logged and reported as gaps."""

from __future__ import annotations

from epicenter.stream.kafka.fault_log import MAX_REPORTED, FaultLog, KafkaFault
from epicenter.stream.metrics import Metrics


def test_lost_records_are_counted_logged_and_a_gap() -> None:
    metrics = Metrics()
    fault_log = FaultLog(metrics)
    fault_log.record_lost("logs.raw/3", 7, 5, "5 records from offset 7 on were deleted before they were read")
    (gap,) = fault_log.drain_gaps()
    assert (gap.kind, gap.source, gap.records, "offset 7" in gap.text) == ("records-lost", "logs.raw/3", 5, True)
    assert fault_log.drain_gaps() == ()
    assert ("epicenter_kafka_faults_total", {"kind": KafkaFault.RECORDS_LOST.value}, 1.0) in list(metrics.series())


def test_same_loss_found_again_is_the_same_gap() -> None:
    ids = []
    for _ in range(2):
        fault_log = FaultLog(Metrics())
        fault_log.record_lost("logs.raw/3", 7, 5, "why")
        ids += [gap.gap_id for gap in fault_log.drain_gaps()]
    assert len(ids) == 2 and len(set(ids)) == 1


def test_only_series_with_a_value_are_exported() -> None:
    metrics = Metrics()
    metrics.record_stored({"matches": 3, "beats": 0})
    series = [(name, labels["table"], value) for name, labels, value in metrics.series() if "stored_rows" in name]
    assert series == [("epicenter_stored_rows_total", "matches", 3.0)]
    assert not any(name.endswith("_created") for name, _, _ in metrics.series())


def test_of_the_faults_that_last_only_the_newest_are_remembered() -> None:
    fault_log = FaultLog(Metrics())
    for offset in range(MAX_REPORTED + 5):
        fault_log.record(KafkaFault.CORRUPT_BATCH, f"logs.raw/0:{offset}", "why")
    assert len(fault_log._reported) == MAX_REPORTED
    fault_log.end(KafkaFault.CORRUPT_BATCH)
    assert not fault_log._reported
