"""Trouble with Kafka: each kind has a name, is counted every time and told once while it lasts."""

from __future__ import annotations

import re
from collections import deque
from enum import StrEnum
from time import time_ns
from typing import Any, Final

from epicenter.rules.errors import DeadLetterKind
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.ledger import DeadLetter, Gap
from epicenter.rules.model.records import Position, RawRecord
from epicenter.rules.redact.redactor import Redactor
from epicenter.sinks.log import get_logger
from epicenter.stream.kafka.raw_batches import Corrupt
from epicenter.stream.metrics import Metrics
from epicenter.stream.scan.redaction import redacted_dead_letter

MAX_KEPT_GAPS: Final = 1_000

log: Final = get_logger(__name__)


class KafkaFault(StrEnum):
    """What can be wrong; docs/operations.md says what to do about each."""

    CORRUPT_BATCH = "corrupt-batch"
    FOREIGN_COMMIT = "foreign-commit"
    FROM_THE_FUTURE = "record-from-the-future"
    GROUP_SHARED = "group-shared"
    KAFKA_ERROR = "kafka-error"
    PARTITIONS_ADDED = "partitions-added"
    RECORDS_LOST = "records-lost"
    TAKEN_AWAY = "partitions-taken-away"
    TOPIC_MADE_AGAIN = "topic-made-again"
    TOPIC_MISSING = "topic-missing"


class FaultLog:
    """What a worker has met."""

    def __init__(self, metrics: Metrics, redactor: Redactor | None = None):
        self._metrics = metrics
        self._redactor = redactor
        self._reported: set[tuple[KafkaFault, str]] = set()
        self._gaps: deque[Gap] = deque(maxlen=MAX_KEPT_GAPS)

    def record(self, kind: KafkaFault, subject: str, text: str, times: int = 1) -> None:
        """Count it, and tell it unless it was told of this subject before."""
        self._metrics.note_fault(kind, times)
        if (kind, subject) not in self._reported:
            self._reported.add((kind, subject))
            log.error("kafka_fault", **_fields(kind, subject), detail=text)

    def record_lost(self, source: str, offset: int, records: int, text: str) -> None:
        """Count and tell records that were deleted before they were read, from this offset on: a gap in the evidence.

        When they were written nobody knows any more: the gap has the time at which it was met.
        """
        self.record(KafkaFault.RECORDS_LOST, f"{source}:{offset}", text)
        now_ns = time_ns()
        gap_id = stable_id("gap", KafkaFault.RECORDS_LOST, source, offset, records)
        self._gaps.append(Gap(gap_id, KafkaFault.RECORDS_LOST.value, "", "", "", source, now_ns, now_ns, records, text))

    def take_gaps(self) -> tuple[Gap, ...]:
        """The gaps since the last call; the newest of very many."""
        gaps = tuple(self._gaps)
        self._gaps.clear()
        return gaps

    def record_corrupt(self, source: str, batch: Corrupt) -> DeadLetter:
        """Count and tell it; the letter that stands for all of it."""
        reason = f"corrupt batch: offsets {batch.offset} to {batch.next_offset - 1}: {batch.reason}"
        self.record(KafkaFault.CORRUPT_BATCH, f"{source}:{batch.offset}", reason)
        record = RawRecord(batch.value, Position(source, batch.offset), 0)
        return redacted_dead_letter(self._redactor, DeadLetterKind.CORRUPT_BATCH, reason, record)[0]

    def end(self, kind: KafkaFault, subject: str = "") -> None:
        """What begins with this subject is over: from here on it is told again."""
        for ended in [fault for fault in self._reported if fault[0] == kind and fault[1].startswith(subject)]:
            self._reported.remove(ended)
            log.warning("kafka_fault_over", **_fields(*ended))


def _fields(kind: KafkaFault, subject: str) -> dict[str, Any]:
    """What of the subject a program that reads our log lines may look for."""
    if place := re.match(r"(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d+)(?::(?P<offset>\d+))?", subject):
        numbers = {name: int(number) for name, number in place.groupdict().items() if name != "topic" and number}
        return {"kind": str(kind), "topic": place["topic"], **numbers}
    return {"kind": str(kind), ("topic" if kind is KafkaFault.TOPIC_MISSING else "group"): subject}
