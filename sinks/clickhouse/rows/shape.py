"""Shared by all tables: rows by column, values that ClickHouse accepts, and times."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

import msgspec

from epicenter.rules.model.times import NS_PER_S

NS_PER_MINUTE: Final = 60 * NS_PER_S
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
LAST_MINUTE_S: Final = (2**32 - 1) // 60 * 60
"""The last minute that a ClickHouse DateTime can hold, in 2106."""

Columns = tuple[tuple[str, str], ...]
"""Names and ClickHouse types of a table's columns."""

TIME: Final = "DateTime64(9, 'UTC')"
NAME: Final = "LowCardinality(String)"


class Rows(msgspec.Struct, frozen=True):
    """Rows for one table, by column: `columns[i]` holds the values of `names[i]`, of ClickHouse type `types[i]`."""

    table: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    columns: tuple[list[Any], ...]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.columns[0])

    def token(self) -> str:
        """A token of the rows' content. (With ids alone, ClickHouse would silently drop a changed row.)"""
        return blake2b(msgspec.msgpack.encode((self.table, self.columns)), digest_size=16).hexdigest()


def rows_of(table: str, columns: Columns, rows: Iterable[tuple[Any, ...]]) -> Rows:
    """Rows, transposed to columns."""
    transposed = tuple([clean(value) for value in column] for column in zip(*rows, strict=True))
    return Rows(
        table,
        tuple(name for name, _ in columns),
        tuple(kind for _, kind in columns),
        transposed or tuple([] for _ in columns),
    )


def minute_s(time_ns: int) -> int:
    """The minute of a time in seconds since the epoch, clamped to ClickHouse's range."""
    return min(int64(time_ns) // NS_PER_MINUTE * 60, LAST_MINUTE_S)


def int64(value: int) -> int:
    """The value clamped to 0..2^63-1: numbers in log lines can be absurd and must not fail the batch."""
    return min(max(value, 0), INT64_MAX)


def optional_int64(value: int | None) -> int | None:
    """As `int64`, for a value that may be None."""
    return None if value is None else int64(value)


def int32(value: int | None) -> int:
    """The value clamped to -1..2^31-1; -1 if unknown."""
    return -1 if value is None else min(max(value, -1), INT32_MAX)


def clean(value: Any) -> Any:
    """The value with lone surrogates (from invalid UTF-8) escaped: ClickHouse rejects them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value
