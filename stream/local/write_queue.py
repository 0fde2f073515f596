"""Rows that wait in memory while the store takes none, by table and in order."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

MAX_WAITING_BYTES: Final = 16 << 20
"""At most this many bytes of a table's rows wait: some 30,000 matches, which take several times as much memory."""

MAX_ROWS_A_WRITE: Final = 5_000
"""At most this many rows of a table are in one write, so that queries of the page don't wait long for it."""

_ENCODER: Final = msgspec.msgpack.Encoder()


class _Waiting(NamedTuple):
    row: Any
    size_bytes: int


class WriteQueue:
    """Rows on their way to the store. Beyond `max_bytes` of a table, its oldest rows are given up."""

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes
        self._tables: dict[str, deque[_Waiting]] = {}
        self._sizes_bytes: Counter[str] = Counter()

    def add(self, rows_by_table: Mapping[str, Sequence[Any]]) -> Counter[str]:
        """Queue rows behind those that wait; return how many were given up, by table."""
        given_up: Counter[str] = Counter()
        for table, rows in rows_by_table.items():
            queue = self._tables.setdefault(table, deque())
            for row in rows:
                queue.append(_Waiting(row, _size_bytes(row)))
                self._sizes_bytes[table] += queue[-1].size_bytes
            while self._sizes_bytes[table] > self._max_bytes:
                self._drop_oldest(table)
                given_up[table] += 1
        return given_up

    def first(self) -> dict[str, list[Any]]:
        """The rows for the next write. They wait until they are removed."""
        return {
            table: [waiting.row for waiting in islice(queue, MAX_ROWS_A_WRITE)]
            for table, queue in self._tables.items()
            if queue
        }

    def remove(self, rows_by_table: Mapping[str, Sequence[Any]]) -> None:
        """Remove rows that `first` returned, as they are stored. Some may have been given up meanwhile."""
        for table, rows in rows_by_table.items():
            stored, queue = set(map(id, rows)), self._tables[table]
            while queue and id(queue[0].row) in stored:
                self._drop_oldest(table)

    def counts(self) -> Counter[str]:
        """How many rows wait, by table."""
        return +Counter({table: len(queue) for table, queue in self._tables.items()})

    def _drop_oldest(self, table: str) -> None:
        self._sizes_bytes[table] -= self._tables[table].popleft().size_bytes


def _size_bytes(row: Any) -> int:
    """The size of a row in a message; of a match, without its rule."""
    return len(_ENCODER.encode(row[0] if isinstance(row, tuple) else row))
