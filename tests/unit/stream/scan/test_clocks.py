"""What does not depend on a worker's clock."""

from __future__ import annotations

from types import SimpleNamespace

from aiokafka import TopicPartition

from epicenter.rules.model.records import Match
from epicenter.stream.kafka.raw_batches import Chunk
from tests.support.logs import a_scanner, at, kernel

XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=1, name=python3, GPU has fallen off the bus."


def test_a_raw_record_without_a_zone_has_the_time_of_the_given_one() -> None:
    value = f"Mar  2 09:00:05 n1 kernel: {XID}".encode()
    record = SimpleNamespace(value=value, key=b"n1", timestamp=at(5) // 10**6, offset=7)
    batch = Chunk([record], 8, record.timestamp).as_batch(TopicPartition("raw", 0), at(6) // 10**6, "Europe/Berlin")
    assert [match.event.event_time_ns for match in a_scanner().scan(batch).matches] == [at(5 - 3600)]


def test_a_worker_s_clock_does_not_affect_lines_with_a_time() -> None:
    record = SimpleNamespace(value=kernel("n1", 5, XID), key=b"n1", timestamp=at(5) // 10**6, offset=7)

    def found(clock_is_off_s: float) -> list[Match]:
        now_ms = at(6 + clock_is_off_s) // 10**6
        batch = Chunk([record], 8, record.timestamp).as_batch(TopicPartition("raw", 0), now_ms)
        return a_scanner().scan(batch).matches

    assert found(-7_200) == found(0) == found(7_200)
    assert [match.rule for match in found(0)] == ["nvidia.xid_79"]
