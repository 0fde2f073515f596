"""Kafka faults: each kind has a name, is counted every time, and is logged once while it lasts."""

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

MAX_GAPS: Final = 1_000
MAX_REPORTED: Final = 1_000
"""Of more faults that last, the oldest are logged again if they recur."""

log: Final = get_logger(__name__)


class KafkaFault(StrEnum):
    """The kinds of faults; docs/operations.md says what to do about each."""

    CORRUPT_BATCH = "corrupt-batch"
    FOREIGN_COMMIT = "foreign-commit"
    FROM_THE_FUTURE = "record-from-the-future"
    GROUP_SHARED = "group-shared"
    KAFKA_ERROR = "kafka-error"
    PARTITIONS_ADDED = "partitions-added"
    RECORDS_LOST = "records-lost"
    PARTITIONS_REVOKED = "partitions-taken-away"
    TOPIC_RECREATED = "topic-made-again"
    TOPIC_MISSING = "topic-missing"


SUBJECTS: Final = {KafkaFault.GROUP_SHARED: "group", KafkaFault.TOPIC_MISSING: "topic"}
"""The log field of a subject that is not a place in a topic."""


class FaultLog:
    """Counts and logs the Kafka faults of a worker."""

    def __init__(self, metrics: Metrics, redactor: Redactor | None = None):
        self._metrics = metrics
        self._redactor = redactor
        self._reported: dict[tuple[KafkaFault, str], None] = {}
        self._gaps: deque[Gap] = deque(maxlen=MAX_GAPS)

    def record(self, kind: KafkaFault, subject: str, text: str, times: int = 1) -> None:
        """Count the fault, and log it unless it is already logged for this subject."""
        self._metrics.record_fault(kind, times)
        if (kind, subject) not in self._reported:
            self._reported[kind, subject] = None
            if len(self._reported) > MAX_REPORTED:
                del self._reported[next(iter(self._reported))]
            log.error("kafka_fault", **_fields(kind, subject), detail=text)

    def record_lost(self, source: str, offset: int, records: int, text: str) -> None:
        """Count and log records that were deleted before they were read, from this offset on: a gap in the evidence.

        Their event time is unknown: the gap has the time at which it was found.
        """
        self.record(KafkaFault.RECORDS_LOST, f"{source}:{offset}", text)
        now_ns = time_ns()
        gap_id = stable_id("gap", KafkaFault.RECORDS_LOST, source, offset, records)
        self._gaps.append(Gap(gap_id, KafkaFault.RECORDS_LOST.value, "", "", "", source, now_ns, now_ns, records, text))

    def drain_gaps(self) -> tuple[Gap, ...]:
        """The gaps since the last call, at most the newest `MAX_GAPS`."""
        gaps = tuple(self._gaps)
        self._gaps.clear()
        return gaps

    def record_corrupt(self, source: str, batch: Corrupt) -> DeadLetter:
        """Count and log a corrupt batch; return one dead letter for all of it."""
        reason = f"corrupt batch: offsets {batch.offset} to {batch.next_offset - 1}: {batch.reason}"
        self.record(KafkaFault.CORRUPT_BATCH, f"{source}:{batch.offset}", reason)
        record = RawRecord(batch.value, Position(source, batch.offset), 0)
        return redacted_dead_letter(self._redactor, DeadLetterKind.CORRUPT_BATCH, reason, record)[0]

    def end(self, kind: KafkaFault, subject: str = "") -> None:
        """End all faults of this kind whose subject begins like this; when they recur they are logged again."""
        for ended in [fault for fault in self._reported if fault[0] == kind and fault[1].startswith(subject)]:
            del self._reported[ended]
            log.warning("kafka_fault_over", **_fields(*ended))


def _fields(kind: KafkaFault, subject: str) -> dict[str, Any]:
    """The subject as log fields that programs can query."""
    if place := re.match(r"(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d+)(?::(?P<offset>\d+))?", subject):
        numbers = {name: int(number) for name, number in place.groupdict().items() if name != "topic" and number}
        return {"kind": str(kind), "topic": place["topic"], **numbers}
    return {"kind": str(kind), SUBJECTS.get(kind, "error"): subject}
