"""Batches broken on the disk of a broker, as a bad disk breaks them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from aiokafka import TopicPartition
from aiokafka.record.util import calc_crc32c

from deploy.dev.broker import OwnBroker

Broken = Callable[[bytes], bytes]


def broken_checksum(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 0xFF])


def broken_payload(batch: bytes) -> bytes:
    body = batch[21:61] + b"\xff" * (len(batch) - 61)
    return batch[:17] + struct.pack(">I", calc_crc32c(body)) + body


def corrupt_on_disk(
    broker: OwnBroker, folder: Path, offsets: Mapping[TopicPartition, int], broken: Broken
) -> dict[TopicPartition, range]:
    """Stop the broker, break in each of these partitions the batch with this offset, and start it again.

    Returns the offsets of each broken batch; a producer may have put several messages into it.
    """
    corrupt = {}
    broker.stop()
    for partition, offset in offsets.items():
        (segment,) = folder.rglob(f"{partition.topic}-{partition.partition}/00000000000000000000.log")
        batches = dict(batches_of(segment.read_bytes()))
        bad = max(first for first in batches if first <= offset)
        corrupt[partition] = range(bad, bad + count_of(batches[bad]))
        batches[bad] = broken(batches[bad])
        segment.write_bytes(b"".join(batches.values()))
    broker.start()
    return corrupt


def count_of(batch: bytes) -> int:
    """How many messages a batch holds: its lastOffsetDelta and one more."""
    (last_delta,) = struct.unpack_from(">i", batch, 23)
    return int(last_delta) + 1


def batches_of(segment: bytes) -> Iterator[tuple[int, bytes]]:
    """The batches of a segment with their first offsets."""
    start = 0
    while start < len(segment):
        first, length = struct.unpack_from(">qi", segment, start)
        yield first, segment[start : start + 12 + length]
        start += 12 + length
