"""Whole batches have the same records as aiokafka's public path."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import count, zip_longest
from typing import Any

import aiokafka.consumer.fetcher as inside
from aiokafka import TopicPartition
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st

from epicenter.stream.kafka.raw_batches import Chunk, Corrupt, RecordsWithBytes, SingleRecords, WholeBatches

PARTITION = TopicPartition("logs.raw", 3)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CRC_AT, CHECKED_FROM, CONTROL_FLAG = 17, 21, 0x20
ABORT, COMMIT = struct.pack(">hh", 0, 0), struct.pack(">hh", 0, 1)

batches = st.fixed_dictionaries(
    {
        "codec": st.sampled_from(sorted(CODECS.values())),
        "values": st.lists(st.one_of(st.none(), st.binary(max_size=40)), min_size=1, max_size=12),
        "gap_before": st.integers(0, 5),
        "gap_between": st.integers(1, 3),
        "producer": st.sampled_from([-1, 7, 8]),
        "control": st.sampled_from(["", "", "", "abort", "commit"]),
    }
)


def encoded(batch: dict[str, Any], first_offset: int) -> tuple[bytes, int]:
    """A record batch as a broker stores it, and the offset after it."""
    is_transactional = batch["producer"] >= 0
    control = {"abort": ABORT, "commit": COMMIT}.get(batch["control"]) if is_transactional else None
    codec = 0 if control else batch["codec"]
    builder = DefaultRecordBatchBuilder(2, codec, is_transactional, batch["producer"], 0, 0, 1 << 20)
    values = [b"\0\0\0\0\0\0"] if control else batch["values"]
    last = 0
    for number, value in enumerate(values):
        last = number * batch["gap_between"]
        builder.append(last, 1_700_000_000_000 + number, control or b"node%d" % (number % 3), value, [("h", b"x")])
    content = bytearray(builder.build())
    content[:8] = struct.pack(">q", first_offset)
    if control:
        content[CHECKED_FROM + 1] |= CONTROL_FLAG
        content[CRC_AT:CHECKED_FROM] = struct.pack(">I", calc_crc32c(bytes(content[CHECKED_FROM:])))
    return bytes(content), first_offset + last + 1


def a_fetch(drawn: list[dict[str, Any]]) -> tuple[bytes, int]:
    """Consecutive batches, and the last offset of the first: brokers begin with the batch of the requested offset."""
    content, offset, first_end = b"", 100, 0
    for batch in drawn:
        raw, offset = encoded(batch, offset + batch["gap_before"])
        content += raw
        first_end = first_end or offset
    return content, first_end - 1


def fields_of(records: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [(record.offset, record.timestamp, record.key, record.value) for record in records]


@given(
    st.lists(batches, max_size=8), st.integers(0, 60), st.integers(1, 15), st.booleans(),
    st.lists(st.tuples(st.sampled_from([7, 8]), st.integers(100, 160)), max_size=3),
)  # fmt: skip
def test_batches_and_single_records_equal_aiokafkas_records(
    drawn: list[dict[str, Any]], skipped: int, most: int, committed_only: bool, aborted: list[tuple[int, int]]
) -> None:
    content, last_of_first = a_fetch(drawn)
    level = inside.READ_COMMITTED if committed_only else inside.READ_UNCOMMITTED
    first_offset = min(100 + skipped, last_of_first)
    given_to_both = (aborted, first_offset, None, None, True, level)
    stock = inside.PartitionRecords(PARTITION, MemoryRecords(content), *given_to_both)
    wanted = fields_of(stock)
    whole = WholeBatches(most, PARTITION, RecordsWithBytes(content), *given_to_both)
    chunks: list[Chunk] = []
    for chunk in whole:
        assert chunk.next_offset == whole.next_fetch_offset
        assert len(chunk.records) <= most
        chunks.append(chunk)

    assert [fields for chunk in chunks for fields in fields_of(chunk.records)] == wanted
    assert whole.next_fetch_offset == stock.next_fetch_offset
    assert [chunk.next_offset for chunk in chunks] == sorted({chunk.next_offset for chunk in chunks})
    single = SingleRecords(most, PARTITION, RecordsWithBytes(content), *given_to_both)
    for record, expected in zip_longest(single, wanted):
        assert fields_of([record]) == [expected]
        assert single.next_fetch_offset == record.offset + 1
    assert single.next_fetch_offset == stock.next_fetch_offset
    for chunk in chunks:
        batch = chunk.as_batch(PARTITION, 1 << 62)
        assert list(batch.offsets) == [record.offset for record in chunk.records]
        assert list(batch.received_ns) == [record.timestamp * 1_000_000 for record in chunk.records]
        assert list(batch.values) == [record.value or b"" for record in chunk.records]


@given(st.lists(batches.filter(lambda batch: batch["producer"] < 0), min_size=2, max_size=5), st.data())
def test_a_broken_batch_loses_no_other_batch(drawn: list[dict[str, Any]], data: st.DataObject) -> None:
    broken = data.draw(st.integers(0, len(drawn) - 1))
    content, wanted, offset, bad = b"", [], 100, (0, 0, b"")
    for number, batch in zip(count(), drawn):
        first = offset
        raw, offset = encoded(batch, offset)
        if number == broken:
            raw = raw[:-1] + bytes([raw[-1] ^ 1])
            is_end_known = batch["gap_between"] == 1 or len(batch["values"]) == 1 or number < len(drawn) - 1
            bad = first, offset if is_end_known else first + 1, raw
        else:
            wanted += list(range(first, offset, batch["gap_between"]))
        content += raw
    whole = WholeBatches(5, PARTITION, RecordsWithBytes(content), None, 100, None, None, True, inside.READ_COMMITTED)
    chunks = list(whole)
    assert [record.offset for chunk in chunks for record in chunk.records] == wanted
    single = list(
        SingleRecords(5, PARTITION, RecordsWithBytes(content), None, 100, None, None, True, inside.READ_COMMITTED)
    )
    assert [record.offset for record in single if not isinstance(record, Corrupt)] == wanted
    assert [record.offset for record in single] == sorted([*wanted, bad[0]])
    (found,) = [chunk for chunk in chunks if chunk.corrupt]
    assert found.corrupt
    assert (found.corrupt.offset, found.corrupt.next_offset, found.corrupt.value) == bad
    assert found.next_offset == found.corrupt.next_offset
