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
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from mode import Service

from rules.model import DeadLetter, Match, stable_id
from rules.ruleset import RuleSet
from stream.clients import make_consumer, make_producer
from stream.holding import HOLD_NS, HoldingScanner
from stream.messages import Part, Tick, encode, encode_in_pieces
from stream.metrics import Metrics
from stream.raw_batches import Chunk, RawBatches, source_of
from stream.scan import BatchScanner, Scanned
from stream.settings import Settings
from stream.topics import TopicNames

FETCH_WAIT_MS: Final = 200
PARTITION_FETCH_BYTES: Final = 4 << 20
TICK_S: Final = 0.5
RARELY: Final = 100_000, 50, 50
"""Thresholds of the garbage collector: a chunk makes thousands of objects, all of them gone with it."""


class _Found(msgspec.Struct, frozen=True):
    """What records of a raw partition hold up to the offset `end`, which is not included."""

    partition: TopicPartition
    end: int
    scanned: Scanned


class Matcher(Service):
    """Scans the raw topic's partitions that this worker owns."""

    def __init__(self, settings: Settings, rules: RuleSet, metrics: Metrics, **kwargs: Any):
        super().__init__(**kwargs)
        self._settings = settings
        self._names = TopicNames(settings.prefix)
        self._scanner = HoldingScanner(BatchScanner(rules, settings.cluster))
        self._metrics = metrics
        self._busy = asyncio.Lock()
        self._read_to: dict[TopicPartition, tuple[int, int]] = {}
        self.last_fetch_s = monotonic()

    async def on_start(self) -> None:
        """Join the group."""
        self._producer = make_producer(self._settings)
        self._consumer = make_consumer(
            self._settings, self._names.match_group, max_partition_fetch_bytes=PARTITION_FETCH_BYTES
        )
        await self._producer.start()
        await self._consumer.start()
        self._batches = RawBatches(self._consumer, self._settings.fetch_records)
        listener = _BetweenBatches(self._busy, self._forget_held, self._note_assigned)
        self._consumer.subscribe([self._settings.raw_topic], listener=listener)
        gc.freeze()
        gc.set_threshold(*RARELY)

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
            chunks = await self._batches.fetch(FETCH_WAIT_MS)
            async with self._busy:
                await self._take(chunks)
            self.last_fetch_s = monotonic()

    async def _take(self, chunks: Sequence[tuple[TopicPartition, Chunk]]) -> None:
        """Scan, send, wait for the acknowledgements, commit."""
        found = [await self._scan(partition, chunk) for partition, chunk in chunks if self._is_mine(partition)]
        found += self._blocks_without_rest()
        if not found:
            return
        await self._send(found)
        try:
            await self._consumer.commit({one.partition: one.end for one in found})
        except (CommitFailedError, IllegalStateError):
            self.log.warning("partitions were taken away before the commit; their records will be read again")
            return
        for one in found:
            self._metrics.note_scan(source_of(one.partition), one.scanned)

    def _is_mine(self, partition: TopicPartition) -> bool:
        return partition in self._consumer.assignment()

    async def _scan(self, partition: TopicPartition, chunk: Chunk) -> _Found:
        source = source_of(partition)
        scanned = self._scanner.scan(chunk.as_batch(partition))
        held = self._scanner.first_held(source)
        self._read_to[partition] = chunk.next_offset, monotonic_ns()
        await asyncio.sleep(0)
        return _Found(partition, chunk.next_offset if held is None else held, scanned)

    def _blocks_without_rest(self) -> list[_Found]:
        """Blocks of partitions of which nothing came for so long that they are taken as they are."""
        waited = [
            (partition, end)
            for partition, (end, read_ns) in self._read_to.items()
            if self._scanner.first_held(source_of(partition)) is not None and monotonic_ns() - read_ns >= HOLD_NS
        ]
        return [_Found(partition, end, self._scanner.rest_of(source_of(partition))) for partition, end in waited]

    def _forget_held(self) -> None:
        self._scanner.forget()
        self._read_to.clear()

    async def _send(self, found: Sequence[_Found]) -> None:
        sends = []
        for number in range(self._settings.match_partitions):
            parts = [_part(one, number, self._settings.match_partitions) for one in found]
            for value in encode_in_pieces(parts):
                sends.append(await self._producer.send(self._names.matches, value, partition=number))
        for letter in (letter for one in found for letter in one.scanned.dead_letters):
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

    def __init__(self, busy: asyncio.Lock, forget_held: Callable[[], None], note_assigned: Callable[[int], None]):
        self._busy = busy
        self._forget_held = forget_held
        self._note_assigned = note_assigned

    async def on_partitions_revoked(self, revoked: Any) -> None:
        async with self._busy:
            self._forget_held()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._note_assigned(len(assigned))


def match_partition(cluster: str, partitions: int) -> int:
    """Where a cluster's matches meet: all evidence of one cluster is correlated in one place."""
    return int(stable_id(cluster), 16) % partitions


def _part(found: _Found, number: int, partitions: int) -> Part:
    scanned = found.scanned

    def belongs(one: Match) -> bool:
        return match_partition(one.event.cluster, partitions) == number

    matches = tuple(match for match in (*scanned.matches, *scanned.observed) if belongs(match))
    beats = tuple(beat for beat in scanned.beats if match_partition(beat.cluster, partitions) == number)
    seats = tuple(seat for seat in scanned.seats if match_partition(seat.cluster, partitions) == number)
    return Part(source_of(found.partition), found.end, scanned.newest_ns, matches, beats, seats)
