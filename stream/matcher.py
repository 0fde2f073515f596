"""The hot path: whole fetches of raw records -> one scan each -> matches and beats on our own topic.

A service of the Faust app with a consumer group of its own. The order never changes: scan, send, wait for the
acknowledgements, commit. Killed at any point, the records are scanned again, and every id comes out the same.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, monotonic_ns
from typing import Any, Final

import msgspec
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from mode import Service

from ingest.batch import Batch
from rules.model import NS_PER_S, DeadLetter, Match, stable_id
from rules.ruleset import RuleSet
from stream.clients import make_consumer, make_producer
from stream.holding import HOLD_NS
from stream.messages import Part, Tick, encode, encode_in_pieces
from stream.metrics import Metrics
from stream.scan import BatchScanner, Scanned
from stream.settings import Settings
from stream.topics import TopicNames

FETCH_WAIT_MS: Final = 200
PARTITION_FETCH_BYTES: Final = 4 << 20
TICK_S: Final = 0.5


class Matcher(Service):
    """Scans the raw topic's partitions that this worker owns."""

    def __init__(self, settings: Settings, rules: RuleSet, metrics: Metrics, **kwargs: Any):
        super().__init__(**kwargs)
        self._settings = settings
        self._names = TopicNames(settings.prefix)
        self._scanner = BatchScanner(rules, settings.cluster)
        self._metrics = metrics
        self._busy = asyncio.Lock()
        self._newest: dict[TopicPartition, tuple[int, int]] = {}
        self.last_fetch_s = monotonic()

    async def on_start(self) -> None:
        """Join the group."""
        self._producer = make_producer(self._settings)
        self._consumer = make_consumer(
            self._settings, self._names.match_group, max_partition_fetch_bytes=PARTITION_FETCH_BYTES
        )
        await self._producer.start()
        await self._consumer.start()
        self._consumer.subscribe([self._settings.raw_topic], listener=_BetweenBatches(self._busy, self._note_assigned))
        gc.freeze()

    async def on_stop(self) -> None:
        """Leave the group after the batch in hand; what is not committed will be read again."""
        async with self._busy:
            await self._consumer.stop()
            await self._producer.stop()

    def _note_assigned(self, partitions: int) -> None:
        self._metrics.note_assigned(self._settings.raw_topic, partitions)

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            fetched = await self._consumer.getmany(timeout_ms=FETCH_WAIT_MS, max_records=self._settings.fetch_records)
            if fetched:
                async with self._busy:
                    await self._take(fetched)
            self.last_fetch_s = monotonic()

    async def _take(self, fetched: dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]) -> None:
        mine = self._consumer.assignment()
        found: list[tuple[str, int, Scanned]] = []
        offsets = {}
        for partition, records in fetched.items():
            if partition in mine and records:
                source = f"{partition.topic}/{partition.partition}"
                scanned = self._scanner.scan(as_batch(source, records), self._has_waited(partition, records[-1].offset))
                self._metrics.note_scan(source, scanned)
                offsets[partition] = records[0].offset
                if scanned.records:
                    offsets[partition] = records[scanned.records - 1].offset + 1
                if scanned.records < len(records):
                    self._consumer.seek(partition, offsets[partition])
                found.append((source, offsets[partition], scanned))
                await asyncio.sleep(0)
        if not found:
            return
        await self._send(found)
        try:
            await self._consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError):
            self.log.warning("partitions were taken away before the commit; their records will be read again")

    def _has_waited(self, partition: TopicPartition, newest_offset: int) -> bool:
        """Whether nothing has come after this record for so long that no block waits for its rest any more."""
        known = self._newest.get(partition)
        if known is None or known[0] != newest_offset:
            self._newest[partition] = newest_offset, monotonic_ns()
            return False
        return monotonic_ns() - known[1] >= HOLD_NS

    async def _send(self, found: Sequence[tuple[str, int, Scanned]]) -> None:
        sends = []
        for number in range(self._settings.match_partitions):
            parts = [_part(*one, number, self._settings.match_partitions) for one in found]
            for value in encode_in_pieces(parts):
                sends.append(await self._producer.send(self._names.matches, value, partition=number))
        for letter in (letter for _, _, scanned in found for letter in scanned.dead_letters):
            sends.append(await self._send_dead(letter))
        await asyncio.gather(*sends)

    async def _send_dead(self, letter: DeadLetter) -> Any:
        key = f"{letter.position.source}:{letter.position.offset}".encode()
        return await self._producer.send(self._names.dead_letters, msgspec.json.encode(letter), key=key)

    @Service.task
    async def _tick(self) -> None:
        """Tell the correlators how far all partitions are read: time goes on by that, over quiet partitions too."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self._settings.kafka)
        await admin.start()
        topic, count = self._settings.raw_topic, self._settings.raw_partitions
        partitions = [TopicPartition(topic, number) for number in range(count)]
        written, changed_ns = 0, monotonic_ns()
        try:
            while not self.should_stop:
                await self.sleep(TICK_S)
                if partitions[0] not in self._consumer.assignment():
                    continue
                try:
                    read = await admin.list_consumer_group_offsets(self._names.match_group, partitions=partitions)
                    ends = await self._consumer.end_offsets(partitions)  # after `read`: never too little lag
                    if sum(ends.values()) != written:
                        written, changed_ns = sum(ends.values()), monotonic_ns()
                    offsets = {one: max(read[one].offset if one in read else 0, 0) for one in partitions}
                    await self._send_tick(ends, offsets, monotonic_ns() - changed_ns)
                except KafkaError as error:
                    if not self.should_stop:
                        self.log.warning("Kafka is away, no tick: %r", error)
        finally:
            await admin.close()

    async def _send_tick(
        self, ends: Mapping[TopicPartition, int], read: Mapping[TopicPartition, int], elapsed_ns: int
    ) -> None:
        lags = {f"{one.topic}/{one.partition}": end - read[one] for one, end in ends.items()}
        self._metrics.note_lag(lags)
        value = encode(
            Tick(
                ends={f"{one.topic}/{one.partition}": offset for one, offset in read.items()},
                lagging=tuple(source for source, lag in lags.items() if lag > 0),
                elapsed_ns=elapsed_ns,
                at_pace=self._settings.time_goes_on,
            )
        )
        for number in range(self._settings.match_partitions):
            await self._producer.send_and_wait(self._names.matches, value, partition=number)


class _BetweenBatches(ConsumerRebalanceListener):
    """Partitions are given back between batches only."""

    def __init__(self, busy: asyncio.Lock, note_assigned: Callable[[int], None]):
        self._busy = busy
        self._note_assigned = note_assigned

    async def on_partitions_revoked(self, revoked: Any) -> None:
        async with self._busy:
            pass

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._note_assigned(len(assigned))


def as_batch(source: str, records: Sequence[ConsumerRecord[bytes, bytes]]) -> Batch:
    """The records of one partition by columns. A missing value counts as an empty one."""
    return Batch(
        source=source,
        values=[record.value or b"" for record in records],
        keys=[record.key for record in records],
        received_ns=[record.timestamp * (NS_PER_S // 1000) for record in records],
        offsets=[record.offset for record in records],
    )


def match_partition(cluster: str, partitions: int) -> int:
    """Where a cluster's matches meet: all evidence of one cluster is correlated in one place."""
    return int(stable_id(cluster), 16) % partitions


def _part(source: str, end: int, scanned: Scanned, number: int, partitions: int) -> Part:
    def belongs(one: Match) -> bool:
        return match_partition(one.event.cluster, partitions) == number

    matches = tuple(match for match in (*scanned.matches, *scanned.observed) if belongs(match))
    beats = tuple(beat for beat in scanned.beats if match_partition(beat.cluster, partitions) == number)
    seats = tuple(seat for seat in scanned.seats if match_partition(seat.cluster, partitions) == number)
    return Part(source, end, scanned.newest_ns, matches, beats, seats)
