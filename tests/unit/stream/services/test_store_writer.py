"""How much is written to the store at once."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition

from epicenter.stream.services.store_writer import BYTES_A_WRITE, pieces

A, B = TopicPartition("matches", 0), TopicPartition("incidents", 1)


def record(partition: TopicPartition, offset: int, size_bytes: int) -> ConsumerRecord[Any, bytes]:
    value = bytes(size_bytes) if size_bytes else None
    return ConsumerRecord(*partition, offset, 0, 0, None, value, None, 0, size_bytes, ())


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([1, 2, 3], [3], id="little at once"),
        pytest.param([BYTES_A_WRITE - 1, 1, 0, 1], [3, 1], id="a full one is not overfull"),
        pytest.param([BYTES_A_WRITE + 1, 1], [1, 1], id="one that is too large goes alone"),
        pytest.param([1, BYTES_A_WRITE + 1, 1], [1, 1, 1], id="whatever comes before it"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_a_fetch_is_written_in_pieces(sizes: list[int], expected: list[int]) -> None:
    records = [record(A, number, size_bytes) for number, size_bytes in enumerate(sizes)]
    fetched = {A: records} if records else {}
    found = list(pieces(fetched))
    assert [len(piece[A]) for piece in found] == expected
    assert [stored for piece in found for stored in piece[A]] == records


def test_a_piece_may_hold_several_partitions() -> None:
    fetched = {A: [record(A, 0, 1), record(A, 1, BYTES_A_WRITE)], B: [record(B, 7, 0)]}
    assert list(pieces(fetched)) == [{A: fetched[A][:1]}, {A: fetched[A][1:], B: fetched[B]}]
