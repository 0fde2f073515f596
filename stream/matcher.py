"""The hot path: whole fetches of raw records -> one scan each -> matches and beats on our own topic.

A service of the Faust app with a consumer group of its own. The order never changes: scan, send, wait for the
acknowledgements, commit. Killed at any point, the records are scanned again, and every id comes out the same.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from time import monotonic, monotonic_ns, time_ns
from typing import Any, Final

import msgspec
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from mode import Service

from rules.model import NS_PER_S, DeadLetter, Match, stable_id
from rules.ruleset import RuleSet
from stream.clients import make_consumer, make_producer
from stream.holding import HOLD_NS, HoldingScanner
from stream.messages import Part, Tick, encode, encode_in_pieces
from stream.metrics import Metrics
from stream.put_off import Later, PutOff, critical_first
from stream.raw_batches import Chunk, RawBatches, source_of
from stream.scan import BatchScanner, Scanned
from stream.settings import Settings
from stream.topics import TopicNames

FETCH_WAIT_MS: Final = 200
PARTITION_FETCH_BYTES: Final = 4 << 20
TICK_S: Final = 0.5
LOOK_AGAIN_S: Final = 1.0
RARELY: Final = 100_000, 50, 50
"""Thresholds of the garbage collector: a chunk makes thousands of objects, all of them gone with it."""


class _Found(msgspec.Struct, frozen=True):
    """What records of a raw partition hold from the offset `first` up to `end`, which is not included.

    `waits`: so far by the critical rules alone.
    """

    partition: TopicPartition
    first: int
    end: int
    scanned: Scanned
    waits: bool = False

    @property
    def source(self) -> str:
        return source_of(self.partition)


class Matcher(Service):
    """Scans the raw topic's partitions that this worker owns."""

    def __init__(self, settings: Settings, rules: RuleSet, metrics: Metrics, **kwargs: Any):
        super().__init__(**kwargs)
        self._settings = settings
        self._names = TopicNames(settings.prefix)
        self._scanner = HoldingScanner(BatchScanner(rules, settings.cluster))
        self._hasty = HoldingScanner(BatchScanner(critical_first(rules), settings.cluster))
        self._is_behind = False
        self._later = Later(settings, rules)
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
        await self._later.start()
        self._batches = RawBatches(self._consumer, self._settings.fetch_records)
        listener = _BetweenBatches(self._busy, self._forget_held, self._note_assigned)
        self._consumer.subscribe([self._settings.raw_topic], listener=listener)
        gc.freeze()
        gc.set_threshold(*RARELY)

    async def on_stop(self) -> None:
        """Leave the group after the batch in hand; what is not committed will be read again."""
        async with self._busy:
            await self._consumer.stop()
            await self._later.stop()
            await self._producer.stop()

    def _note_assigned(self, partitions: int) -> None:
        self._metrics.note_assigned(self._settings.raw_topic, partitions)

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            chunks = await self._batches.fetch(FETCH_WAIT_MS)
            self._is_behind &= bool(chunks)
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
            if one.waits:
                self._metrics.note_put_off(one.source, one.scanned.records)
            else:
                self._metrics.note_scan(one.source, one.scanned)

    def _is_mine(self, partition: TopicPartition) -> bool:
        return partition in self._consumer.assignment()

    async def _scan(self, partition: TopicPartition, chunk: Chunk) -> _Found:
        source = source_of(partition)
        scanner = self._scanner_for(source, chunk)
        first = _first_offset(scanner, source, chunk)
        scanned = scanner.scan(chunk.as_batch(partition))
        held = scanner.first_held(source)
        self._read_to[partition] = chunk.next_offset, monotonic_ns()
        await asyncio.sleep(0)
        return _Found(partition, first, chunk.next_offset if held is None else held, scanned, scanner is self._hasty)

    def _scanner_for(self, source: str, chunk: Chunk) -> HoldingScanner:
        """The one that holds a block of the source, else by how old the chunk is."""
        age_ns = time_ns() - chunk.newest_received_ns if chunk.records else 0
        self._metrics.note_behind(source, age_ns / NS_PER_S)
        self._is_behind = age_ns > self._settings.behind_after_ns
        wanted, other = (self._hasty, self._scanner) if self._is_behind else (self._scanner, self._hasty)
        return wanted if other.first_held(source) is None else other

    def _blocks_without_rest(self) -> list[_Found]:
        """Blocks of partitions of which nothing came for so long that they are taken as they are."""
        waited = []
        for partition, (end, read_ns) in self._read_to.items():
            for scanner in (self._scanner, self._hasty):
                first = scanner.first_held(source_of(partition))
                if first is not None and monotonic_ns() - read_ns >= HOLD_NS:
                    scanned = scanner.rest_of(source_of(partition))
                    waited.append(_Found(partition, first, end, scanned, scanner is self._hasty))
        return waited

    def _forget_held(self) -> None:
        self._scanner.forget()
        self._hasty.forget()
        self._read_to.clear()

    @Service.task
    async def _do_later(self) -> None:
        """What was put off, whenever the newest records are read."""
        while not self.should_stop:
            if self._is_behind:
                await self.sleep(LOOK_AGAIN_S)
            elif isinstance(put_off := await self._later.next_range(), DeadLetter):
                await (await self._send_dead(put_off))
            elif put_off:
                scanned = await self._later.scan(put_off)
                partition = TopicPartition(put_off.topic, put_off.partition)
                await self._send([_Found(partition, put_off.first, put_off.end, scanned)], moves_time=False)
                if await self._later.done():
                    self._metrics.note_done_later(source_of(partition), scanned)

    async def _send(self, found: Sequence[_Found], moves_time: bool = True) -> None:
        sends = []
        for number in range(self._settings.match_partitions):
            parts = [_part(one, number, self._settings.match_partitions, moves_time) for one in found]
            for value in encode_in_pieces(parts):
                sends.append(await self._producer.send(self._names.matches, value, partition=number))
        for one in found:
            if one.waits:
                value = msgspec.msgpack.encode(PutOff(one.partition.topic, one.partition.partition, one.first, one.end))
                sends.append(await self._producer.send(self._names.put_off, value, key=one.source.encode()))
            else:
                sends += [await self._send_dead(letter) for letter in one.scanned.dead_letters]
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


@lru_cache
def match_partition(cluster: str, partitions: int) -> int:
    """Where a cluster's matches meet: all evidence of one cluster is correlated in one place."""
    return int(stable_id(cluster), 16) % partitions


def _first_offset(scanner: HoldingScanner, source: str, chunk: Chunk) -> int:
    held = scanner.first_held(source)
    if held is not None:
        return held
    return chunk.records[0].offset if chunk.records else chunk.next_offset


def _part(found: _Found, number: int, partitions: int, moves_time: bool) -> Part:
    scanned = found.scanned

    def belongs(one: Match) -> bool:
        return match_partition(one.event.cluster, partitions) == number

    matches = tuple(match for match in (*scanned.matches, *scanned.observed) if belongs(match))
    beats = tuple(beat for beat in scanned.beats if match_partition(beat.cluster, partitions) == number)
    seats = tuple(seat for seat in scanned.seats if match_partition(seat.cluster, partitions) == number)
    end, newest_ns = (found.end, scanned.newest_ns) if moves_time else (None, None)
    return Part(found.source, end, newest_ns, matches, beats, seats)
