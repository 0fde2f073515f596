"""Whole record batches out of aiokafka, without an object for each record; and corrupt ones by name.

Everything that depends on aiokafka's internals is here. aiokafka's fetcher creates a `PartitionRecords` for each
response, which yields records one by one; ours yields thousands at once, as aiokafka's parser decoded them. When the
internals of the installed aiokafka differ, `RawBatches` uses the public API.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from types import FunctionType, MethodType
from typing import Any, Final

import aiokafka.consumer.fetcher as inside
import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords
from cramjam import DecompressionError

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.columns import Read
from epicenter.rules.model.times import NS_PER_S, UTC_ZONE
from epicenter.sinks.log import get_logger

log: Final = get_logger(__name__)

CHUNK_RECORDS: Final = 4_000
"""A chunk is searched in one pass. In smaller chunks too many hits find cold caches."""

_NS_PER_MS: Final = NS_PER_S // 1000
_MADE_WITH: Final = ("tp", "records", "aborted_transactions", "fetch_offset", "key_deserializer", "value_deserializer",
                     "check_crcs", "isolation_level")  # fmt: skip
"""The arguments of `PartitionRecords` in aiokafka 0.14."""


CORRUPT: Final = (CorruptRecordException, DecompressionError, ValueError)
"""What aiokafka raises for bytes that are not a batch."""

_OFFSET, _LENGTH = struct.Struct(">q"), struct.Struct(">i")
_LENGTH_AT, _LAST_DELTA_AT, _COUNT_AT, _HEAD_BYTES = 8, 23, 57, 61
"""Offsets of fields in a batch header, in the record format of Kafka 0.11 and newer."""


def source_of(partition: TopicPartition) -> str:
    """How positions and messages name a raw partition."""
    return f"{partition.topic}/{partition.partition}"


class Corrupt(msgspec.Struct, frozen=True):
    """A batch that can't be unpacked, as the broker sent it: `offset` is its first, `next_offset` comes after it."""

    offset: int
    next_offset: int
    reason: str
    value: bytes

    @property
    def records(self) -> int:
        """How many records are lost with it, as far as its header shows."""
        return self.next_offset - self.offset


class Chunk(msgspec.Struct, frozen=True):
    """Records of one partition in the order of their offsets, and the offset to resume from.

    It is empty for a `corrupt` batch, or where a broker has only entries such as transaction markers.
    `newest_ms` is the newest time of receipt that the records claim.
    """

    records: Sequence[Any]
    next_offset: int
    newest_ms: int = 0
    corrupt: Corrupt | None = None

    def as_batch(self, partition: TopicPartition, now_ms: int, zone: str = UTC_ZONE) -> Batch:
        """The records by columns. A missing value counts as an empty one, a time in the future as now.

        `zone` is the time zone of times that name none.
        """
        values = list(map(attrgetter("value"), self.records))
        return Batch(
            source=source_of(partition),
            values=values if all(values) else [value or b"" for value in values],
            keys=list(map(attrgetter("key"), self.records)),
            received_ns=Read(self.records, lambda record: min(record.timestamp, now_ms) * _NS_PER_MS),
            offsets=Read(self.records, attrgetter("offset")),
            zone=zone,
        )


class RawBatches:
    """Reads a started consumer in chunks."""

    def __init__(self, consumer: AIOKafkaConsumer, most_records: int):
        self._consumer = consumer
        self._chunk_records = min(most_records, CHUNK_RECORDS)
        self.is_whole = fits_inside()
        if self.is_whole:
            _let_fetcher_make(consumer, lambda *arguments: WholeBatches(self._chunk_records, *arguments))
        else:
            log.warning("aiokafka_internals_changed", detail="records are read one by one, at half the speed")

    async def fetch(self, timeout_ms: int) -> list[tuple[TopicPartition, Chunk]]:
        """The next chunk, if any arrives in time; the public API may return chunks of several partitions.

        Raises:
            KafkaError: as `AIOKafkaConsumer.getmany` does.
        """
        if self.is_whole:
            chunks = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=1)
            return [(partition, found[0]) for partition, found in chunks.items()]
        fetched = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=self._chunk_records)
        return [
            (partition, Chunk(records, records[-1].offset + 1, max(map(attrgetter("timestamp"), records))))
            for partition, records in fetched.items()
            if records
        ]

    def end_seen_ms(self, partition: TopicPartition, read_to: int) -> int | None:
        """When the broker last answered that nothing follows what was read; None while something does."""
        if partition not in self._consumer.assignment():
            return None
        end = self._consumer.last_stable_offset(partition)
        has_more = self.is_whole and end is not None and end > read_to
        return None if has_more else self._consumer.last_poll_timestamp(partition)


def fits_inside() -> bool:
    """Whether the installed aiokafka has the parts that whole batches need."""
    try:
        names_used = inside.Fetcher._proc_fetch_request.__code__.co_names
        made_with = tuple(inspect.signature(inside.PartitionRecords).parameters)
        has_abort_handling = (
            inside.PartitionRecords._consume_aborted_up_to
            and inside.PartitionRecords._contains_abort_marker
            and inside.PartitionRecords._consumer_record
        )
    except (AttributeError, TypeError, ValueError):
        return False
    return (
        {"PartitionRecords", "MemoryRecords"} <= set(names_used)
        and made_with == _MADE_WITH
        and bool(has_abort_handling)
    )


def surface_corrupt_batches(consumer: AIOKafkaConsumer) -> None:
    """Make a started consumer return a `Corrupt` in place of a batch that can't be unpacked, where aiokafka raises."""
    if fits_inside():
        _let_fetcher_make(consumer, lambda *arguments: SingleRecords(CHUNK_RECORDS, *arguments))


def observe_uncompressed(consumer: AIOKafkaConsumer, observe: Callable[[TopicPartition, range], None]) -> None:
    """Make a started consumer report the offsets of uncompressed batches, and return `Corrupt` as above."""
    if fits_inside():
        _let_fetcher_make(consumer, lambda *arguments: _ReportsUncompressed(observe, CHUNK_RECORDS, *arguments))


def _let_fetcher_make(consumer: AIOKafkaConsumer, make: Callable[..., WholeBatches]) -> None:
    """Install our `PartitionRecords` for this consumer only."""
    fetcher = consumer._fetcher
    names = {**vars(inside), "PartitionRecords": make, "MemoryRecords": RecordsWithBytes}
    fetcher._proc_fetch_request = MethodType(FunctionType(type(fetcher)._proc_fetch_request.__code__, names), fetcher)


class WholeBatches(inside.PartitionRecords):  # type: ignore[misc]
    """A broker's response for one partition, in chunks of at most `most_records` records.

    Transactions, control batches and gaps are handled as in aiokafka.
    """

    def __init__(self, most_records: int, *arguments: Any):
        super().__init__(*arguments)
        self.next_fetch_offset: int
        self._most_records = most_records

    def _unpack_records(self) -> Iterator[Chunk]:
        records: list[Any] = []
        yielded_to, newest_ms = self.next_fetch_offset, 0
        while self._records.has_next():
            try:
                batch = self._records.next_batch()
                if self._check_crcs and not batch.validate_crc():
                    raise CorruptRecordException("its checksum is wrong")
                if not self._is_skipped(batch):
                    records += self._from_next_offset(batch)
                    newest_ms = max(newest_ms, getattr(batch, "max_timestamp", 0))
            except CORRUPT as error:
                if records:
                    yield Chunk(records, self.next_fetch_offset, newest_ms)
                yield self._corrupt(error)
                records, yielded_to = [], self.next_fetch_offset
                continue
            while len(records) > self._most_records:
                piece, records = records[: self._most_records], records[self._most_records :]
                self.next_fetch_offset = records[0].offset
                yield Chunk(piece, self.next_fetch_offset, newest_ms)
            self.next_fetch_offset = batch.next_offset
            if len(records) == self._most_records:
                yield Chunk(records, self.next_fetch_offset, newest_ms)
                records, yielded_to, newest_ms = [], self.next_fetch_offset, 0
        if self.next_fetch_offset > yielded_to:
            yield Chunk(records, self.next_fetch_offset, newest_ms)

    def _corrupt(self, error: Exception) -> Chunk:
        """The current batch. Reading resumes behind it, or at the next offset when its end is unknown."""
        first, value = self.next_fetch_offset, self._records.newest
        self.next_fetch_offset = max(_consistent_end(value) or self._records.base_of_next or 0, first + 1)
        return Chunk((), self.next_fetch_offset, 0, Corrupt(first, self.next_fetch_offset, f"{error}", value))

    def _from_next_offset(self, batch: Any) -> list[Any]:
        """Without the records before the requested offset: brokers send whole batches."""
        records = list(batch)
        if records and records[0].offset < self.next_fetch_offset:
            return [record for record in records if record.offset >= self.next_fetch_offset]
        return records

    def _is_skipped(self, batch: Any) -> bool:
        """Whether it holds no records for us: a control batch, or one of an aborted transaction."""
        if self._isolation_level == inside.READ_COMMITTED and batch.producer_id is not None:
            self._consume_aborted_up_to(batch.base_offset)
            if batch.is_control_batch and self._contains_abort_marker(batch):
                self._aborted_producers.discard(batch.producer_id)
            if batch.is_transactional and batch.producer_id in self._aborted_producers:
                return True
        return bool(batch.is_control_batch)


class SingleRecords(WholeBatches):
    """The same, record by record as aiokafka yields them."""

    def _unpack_records(self) -> Iterator[Any]:
        for chunk in super()._unpack_records():
            for record in chunk.records:
                self.next_fetch_offset = record.offset + 1
                yield self._consumer_record(self._tp, record)
            self.next_fetch_offset = chunk.next_offset
            if chunk.corrupt:
                yield chunk.corrupt


class _ReportsUncompressed(SingleRecords):
    def __init__(self, observe: Callable[[TopicPartition, range], None], *arguments: Any):
        super().__init__(*arguments)
        self._observe = observe

    def _from_next_offset(self, batch: Any) -> list[Any]:
        if not batch.compression_type:
            self._observe(self._tp, range(batch.base_offset, batch.next_offset))
        return super()._from_next_offset(batch)


class RecordsWithBytes:
    """aiokafka's `MemoryRecords` that also keeps the bytes of the newest batch."""

    def __init__(self, fetched: bytes):
        self._inner = MemoryRecords(fetched)
        self._fetched = fetched
        self._start = self._end = 0
        self.has_next, self.size_in_bytes = self._inner.has_next, self._inner.size_in_bytes

    def next_batch(self) -> Any:
        """The next batch, not unpacked."""
        (length,) = _LENGTH.unpack_from(self._fetched, self._end + _LENGTH_AT)
        self._start, self._end = self._end, self._end + _LENGTH_AT + _LENGTH.size + length
        return self._inner.next_batch()

    @property
    def newest(self) -> bytes:
        """The bytes of the last batch returned."""
        return bytes(self._fetched[self._start : self._end])

    @property
    def base_of_next(self) -> int | None:
        """The first offset of the next batch, if the response contains one."""
        return int(_OFFSET.unpack_from(self._fetched, self._end)[0]) if self.has_next() else None


def _consistent_end(batch: bytes) -> int | None:
    """The offset behind a batch, if the two record counts in its header agree; corrupt bytes seldom do."""
    if len(batch) < _HEAD_BYTES:
        return None
    (first,), (last_delta,), (count,) = (
        _OFFSET.unpack_from(batch),
        _LENGTH.unpack_from(batch, _LAST_DELTA_AT),
        _LENGTH.unpack_from(batch, _COUNT_AT),
    )
    return int(first + count) if 0 < count == last_delta + 1 else None
