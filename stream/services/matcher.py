"""The hot path: whole fetches of raw records -> one scan each -> matches and heartbeats on our own topic.

A service of the Faust app with its own consumer group. The order never changes: scan, send, wait for the
acknowledgements, commit. After a kill at any point the records are scanned again and every id is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from time import monotonic, perf_counter
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from mode import Service

from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.log import get_logger
from epicenter.stream.kafka.alignment import WatermarkAlignment
from epicenter.stream.kafka.clients import make_admin, make_consumer, make_producer
from epicenter.stream.kafka.fault_log import FaultLog, KafkaFault
from epicenter.stream.kafka.raw_batches import Chunk, RawBatches
from epicenter.stream.kafka.scan_messages import ScannedRange
from epicenter.stream.kafka.sending import Sender
from epicenter.stream.kafka.ticker import WatermarkTicker
from epicenter.stream.kafka.topic_identity import Recovery
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.metrics import Metrics
from epicenter.stream.process.memory import collect_rarely
from epicenter.stream.scan.redaction import redactor_of
from epicenter.stream.scan.rule_budget import RuleBudget, over_budget
from epicenter.stream.services.chunks import ChunkScanner
from epicenter.stream.settings import Settings

log: Final = get_logger(__name__)

FETCH_WAIT_MS: Final = 200
PARTITION_FETCH_BYTES: Final = 4 << 20
TICK_S: Final = 0.2


class Matcher(Service):
    """Scans the raw topic's partitions that this worker owns."""

    def __init__(self, settings: Settings, rules: RuleSet, metrics: Metrics, **kwargs: Any):
        super().__init__(**kwargs)
        self._settings = settings
        self._names = TopicNames(settings.prefix)
        self._metrics = metrics
        redactor = redactor_of(settings)
        self._fault_log = FaultLog(metrics, redactor)
        self._rule_budget = RuleBudget(settings.rule_cpu_share, settings.rule_cpu_share_trusted, perf_counter)
        self._scanner = ChunkScanner(settings, rules, self._rule_budget, metrics, self._fault_log, redactor)
        self._busy = asyncio.Lock()
        self._unsent: list[ScannedRange] = []
        self._alignment = WatermarkAlignment()
        self._paused: set[TopicPartition] = set()
        self.over_budget: list[str] = []
        self.last_fetch_s = monotonic()
        self.group = self._names.match_group
        self.has_joined = False

    async def reload(self, rules: RuleSet) -> None:
        """Use these rules from the next batch on."""
        async with self._busy:
            self._scanner.reload(rules)

    async def on_start(self) -> None:
        """Join the group."""
        settings, group = self._settings, self._names.match_group
        self._producer = make_producer(settings)
        self._consumer = make_consumer(
            settings,
            group,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
            auto_offset_reset="none",
            isolation_level="read_committed",
        )
        self._admin = make_admin(settings)
        self._recovery = Recovery(
            settings.raw_topic, group, self._consumer, self._fault_log, self._metrics.record_lost_records
        )
        self._sender = Sender(settings, self._producer)
        self._ticker = WatermarkTicker(
            settings, self._consumer, self._producer, self._recovery, self._metrics, self._alignment
        )
        await self._admin.start()
        await self._producer.start()
        await self._consumer.start()
        self._batches = RawBatches(self._consumer, settings.fetch_records)
        listener = _RebalanceListener(self._busy, self._forget_uncommitted, self._start_with)
        self._consumer.subscribe([settings.raw_topic], listener=listener)
        collect_rarely()

    async def on_stop(self) -> None:
        """Leave the group after the current batch. Whatever is not committed is read again."""
        async with self._busy:
            await self._consumer.stop()
            await self._producer.stop()
            await self._admin.close()

    async def _start_with(self, partitions: Collection[TopicPartition]) -> None:
        """Pause new partitions until their committed offsets are known to belong to this topic."""
        self._consumer.pause(*partitions)
        self._metrics.record_assigned(self._settings.raw_topic, len(partitions))
        try:
            await self._recovery.check_committed(self._admin, partitions)
        except KafkaError as error:
            self._fault_log.record(KafkaFault.KAFKA_ERROR, repr(error), "committed offsets are used unchecked")
        self._consumer.resume(*self._consumer.assignment().intersection(partitions))
        self.has_joined = True

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            if self._recovery.is_topic_new:
                async with self._busy:
                    self._forget_uncommitted()
                    await self._recovery.begin_anew()
            chunks = await self._fetched(0 if self._unsent else FETCH_WAIT_MS)
            async with self._busy:
                self._unsent += [
                    await self._scan(partition, chunk) for partition, chunk in chunks if self._is_mine(partition)
                ]
                if not chunks or sum(unsent.scanned.records for unsent in self._unsent) >= self._settings.fetch_records:
                    await self._settle()
            await self._sender.send_gaps(self._fault_log.drain_gaps())
            self._record_costs()

    def _record_costs(self) -> None:
        if (used := self._rule_budget.rotate(monotonic())) is not None:
            self._metrics.record_uses(used)
            self.over_budget = over_budget(used)
            for report in self.over_budget:
                log.warning("rule_over_budget", detail=report)

    async def _fetched(self, wait_ms: int) -> Sequence[tuple[TopicPartition, Chunk]]:
        try:
            chunks = await self._batches.fetch(wait_ms)
        except KafkaError as error:
            await self._recovery.after(error)
            return ()
        self._fault_log.end(KafkaFault.KAFKA_ERROR, "fetch")
        self.last_fetch_s = monotonic()
        return chunks

    async def _settle(self) -> None:
        """Send the results, wait for the acknowledgements, commit."""
        ranges, self._unsent = [*self._unsent, *self._scanner.blocks_without_rest(self._batches.end_seen_ms)], []
        if not ranges:
            return
        await self._sender.send(ranges)
        for scanned_range in ranges:
            self._alignment.record(
                scanned_range.partition, scanned_range.scanned.newest_ns, scanned_range.scanned.pending
            )
        topic_id = self._recovery.topic_id
        try:
            await self._consumer.commit(
                {
                    scanned_range.partition: (
                        scanned_range.end,
                        self._alignment.mark(scanned_range.partition, topic_id),
                    )
                    for scanned_range in ranges
                }
            )
        except (CommitFailedError, IllegalStateError) as error:
            text = "partitions were reassigned before the commit; uncommitted records are read again"
            self._fault_log.record(KafkaFault.PARTITIONS_REVOKED, repr(error), text)
            return
        for scanned_range in ranges:
            self._metrics.record_scan(scanned_range.source, scanned_range.scanned)

    async def _scan(self, partition: TopicPartition, chunk: Chunk) -> ScannedRange:
        found = self._scanner.scan(partition, chunk)
        await asyncio.sleep(0)
        return found

    def _is_mine(self, partition: TopicPartition) -> bool:
        return partition in self._consumer.assignment()

    def _forget_uncommitted(self) -> None:
        self._scanner.forget()
        self._unsent.clear()
        self._alignment.forget()
        self._paused.clear()

    @Service.task
    async def _tick(self) -> None:
        while not self.should_stop:
            await self.sleep(TICK_S)
            try:
                await self._ticker.tick(self._admin)
            except KafkaError as error:
                if not self.should_stop:
                    self._fault_log.record(KafkaFault.KAFKA_ERROR, "tick", f"event time does not advance: {error!r}")
            else:
                self._fault_log.end(KafkaFault.KAFKA_ERROR, "tick")
            self._align()

    def _align(self) -> None:
        """Pause partitions that are too far ahead of the slowest one, whichever worker reads that one."""
        mine = self._consumer.assignment()
        too_far = self._alignment.too_far() & mine
        self._consumer.resume(*(self._paused & mine) - too_far)
        self._consumer.pause(*too_far)
        self._paused = too_far
        self._metrics.record_paused(self._settings.raw_topic, len(too_far))


class _RebalanceListener(ConsumerRebalanceListener):
    """Releases partitions only between batches."""

    def __init__(
        self,
        busy: asyncio.Lock,
        forget_uncommitted: Callable[[], None],
        start_with: Callable[[Collection[TopicPartition]], Awaitable[None]],
    ):
        self._busy = busy
        self._forget_uncommitted = forget_uncommitted
        self._start_with = start_with

    async def on_partitions_revoked(self, revoked: Any) -> None:
        async with self._busy:
            self._forget_uncommitted()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self._start_with(assigned)
