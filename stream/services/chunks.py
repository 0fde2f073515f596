"""Chunks of raw partitions -> scan results."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import Final, NamedTuple

from aiokafka import TopicPartition

from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.redact.redactor import Redactor
from epicenter.stream.kafka.fault_log import FaultLog, KafkaFault
from epicenter.stream.kafka.raw_batches import Chunk, Corrupt, source_of
from epicenter.stream.kafka.scan_messages import ScannedRange
from epicenter.stream.metrics import Metrics
from epicenter.stream.scan.block_buffer import MAX_BLOCK_WAIT_NS, BlockBuffer
from epicenter.stream.scan.rule_budget import RuleBudget
from epicenter.stream.scan.scan import BatchScanner, ScanResult
from epicenter.stream.settings import Settings

MAX_GAP_MS: Final = 600
"""A broker without news answers after half a second (aiokafka's `fetch_max_wait_ms`), and is asked again at once. A
longer time between two answers says no more: it was away, or the partition was paused."""

MAX_BLOCK_WAIT_MS: Final = MAX_BLOCK_WAIT_NS // 1_000_000

FUTURE_MS: Final = 60_000
"""Records stamped further ahead of now than this are reported. Shippers' clocks may be slightly ahead."""


class _Idle(NamedTuple):
    """When the broker last answered that nothing follows in a partition, and for how long it has said so."""

    end_seen_ms: int
    idle_ms: int


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
        self._idle: dict[TopicPartition, _Idle] = {}

    def reload(self, rules: RuleSet) -> None:
        """Use these rules from the next chunk on."""
        self._scanner.reload(rules)

    def forget(self) -> None:
        """Drop what is buffered: the next owner of the partitions reads it again."""
        self._scanner.forget()
        self._read_to.clear()
        self._idle.clear()

    def scan(self, partition: TopicPartition, chunk: Chunk) -> ScannedRange:
        """Scan a chunk together with the records buffered for its partition."""
        source, now_ms = source_of(partition), time_ns() // 1_000_000
        self._metrics.record_newest_age(source, (now_ms - (chunk.newest_ms or now_ms)) / 1000)
        if chunk.corrupt:
            scanned = self._dead_batch(source, chunk.corrupt)
        else:
            scanned = self._scanner.scan(chunk.as_batch(partition, now_ms, self._zone))
        self._name_future(source, chunk, now_ms)
        buffered = self._scanner.first_buffered(source)
        self._read_to[partition] = chunk.next_offset
        self._idle.pop(partition, None)
        end = chunk.next_offset if buffered is None else buffered
        return ScannedRange(partition, end, scanned)

    def blocks_without_rest(self, end_seen_ms: Callable[[TopicPartition, int], int | None]) -> list[ScannedRange]:
        """Scan incomplete blocks of partitions in which nothing follows for long enough, by the broker's own answers.

        While it is away or a partition is paused, the rest may lie there unread. `end_seen_ms` is when the broker last
        answered that a partition ends at this offset, None if something follows.
        """
        waiting = set(self._scanner.waiting)
        without_rest = []
        for partition, end in self._read_to.items():
            source = source_of(partition)
            if source in waiting and self._observe_idle_ms(partition, end_seen_ms(partition, end)) >= MAX_BLOCK_WAIT_MS:
                without_rest.append(ScannedRange(partition, end, self._scanner.rest_of(source)))
        return without_rest

    def _observe_idle_ms(self, partition: TopicPartition, end_seen_ms: int | None) -> int:
        """For how long answers of the broker have said that nothing follows what was read."""
        if end_seen_ms is None:
            return 0
        before = self._idle.get(partition, _Idle(end_seen_ms, 0))
        idle_ms = before.idle_ms + min(max(0, end_seen_ms - before.end_seen_ms), MAX_GAP_MS)
        self._idle[partition] = _Idle(end_seen_ms, idle_ms)
        return idle_ms

    def _name_future(self, source: str, chunk: Chunk, now_ms: int) -> None:
        if chunk.newest_ms > now_ms + FUTURE_MS:
            times = sum(record.timestamp > now_ms + FUTURE_MS for record in chunk.records)
            text = "treated as received now; check the shippers' clocks"
            self._fault_log.record(KafkaFault.FROM_THE_FUTURE, source, text, times)

    def _dead_batch(self, source: str, corrupt: Corrupt) -> ScanResult:
        dead_letter = self._fault_log.record_corrupt(source, corrupt)
        return ScanResult(records=corrupt.records, dead=corrupt.records, dead_letters=[dead_letter])
