"""Chunks of raw partitions -> scan results."""

from __future__ import annotations

from time import monotonic_ns, time_ns
from typing import Final

from aiokafka import TopicPartition

from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.redact.redactor import Redactor
from epicenter.stream.kafka.fault_log import FaultLog, KafkaFault
from epicenter.stream.kafka.raw_batches import Chunk, Corrupt, source_of
from epicenter.stream.kafka.scan_messages import ScannedRange
from epicenter.stream.metrics import Metrics
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.rule_budget import RuleBudget
from epicenter.stream.scan.scan import BatchScanner, ScanResult
from epicenter.stream.settings import Settings

FUTURE_MS: Final = 60_000
"""Records stamped further ahead of now than this are reported. Shippers' clocks may be slightly ahead."""


class ChunkScanner:
    """Scans the chunks of every partition that this worker reads. A block cut by a chunk waits for the next one."""

    def __init__(
        self,
        settings: Settings,
        rules: RuleSet,
        rule_budget: RuleBudget,
        metrics: Metrics,
        fault_log: FaultLog,
        redactor: Redactor | None = None,
    ):
        self._metrics = metrics
        self._fault_log = fault_log
        self._zone = settings.time_zone
        self._scanner = BlockBuffer(BatchScanner(rules, settings.cluster, rule_budget=rule_budget, redactor=redactor))
        self._read_to: dict[TopicPartition, int] = {}

    def reload(self, rules: RuleSet) -> None:
        """Use these rules from the next chunk on."""
        self._scanner.reload(rules)

    def forget(self) -> None:
        """Drop what is buffered: the next owner of the partitions reads it again."""
        self._scanner.forget()
        self._read_to.clear()

    def scan(self, partition: TopicPartition, chunk: Chunk) -> ScannedRange:
        """Scan a chunk together with the records buffered for its partition."""
        source, now_ms = source_of(partition), time_ns() // 1_000_000
        self._metrics.record_newest_age(source, (now_ms - (chunk.newest_ms or now_ms)) / 1000)
        if chunk.corrupt:
            scanned = self._dead_batch(source, chunk.corrupt)
        else:
            scanned = self._scanner.scan(chunk.as_batch(partition, now_ms, self._zone), monotonic_ns())
        self._name_future(source, chunk, now_ms)
        buffered = self._scanner.first_buffered(source)
        self._read_to[partition] = chunk.next_offset
        end = chunk.next_offset if buffered is None else buffered
        return ScannedRange(partition, end, scanned)

    def blocks_without_rest(self) -> list[ScannedRange]:
        """Scan incomplete blocks of partitions that have been idle for long enough."""
        overdue = set(self._scanner.overdue(monotonic_ns()))
        return [
            ScannedRange(partition, end, self._scanner.rest_of(source))
            for partition, end in self._read_to.items()
            if (source := source_of(partition)) in overdue
        ]

    def _name_future(self, source: str, chunk: Chunk, now_ms: int) -> None:
        if chunk.newest_ms > now_ms + FUTURE_MS:
            times = sum(record.timestamp > now_ms + FUTURE_MS for record in chunk.records)
            text = "treated as received now; check the shippers' clocks"
            self._fault_log.record(KafkaFault.FROM_THE_FUTURE, source, text, times)

    def _dead_batch(self, source: str, corrupt: Corrupt) -> ScanResult:
        dead_letter = self._fault_log.record_corrupt(source, corrupt)
        return ScanResult(records=corrupt.records, dead=corrupt.records, dead_letters=[dead_letter])
