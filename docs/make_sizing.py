"""The sizing table of docs/operations.md, from what was measured: `python -m docs.make_sizing` prints it."""

from __future__ import annotations

from math import ceil, log2
from typing import Final

LINES_A_CORE_SECOND: Final = 610_000
"""docs/performance.md, `make bench-stream`: a worker with the whole catalogue."""

BUSY: Final = 0.6
"""How busy a worker should be, so that it catches up after an outage."""

WORKER_GB: Final = 0.6
"""docs/benches.md, `make bench-storm`: 587 MB of the correlating worker with 16,384 ranks; others use less."""

RAW_BYTES: Final = 50
"""docs/performance.md: a line of 300 bytes takes 25 in lz4 there, real ones perhaps 50."""

COPIES: Final = 3
MATCHED: Final = 0.001
"""The share of lines that a failure rule fits; ten times that of most clusters."""

MATCH_BYTES: Final = 47
"""docs/benches.md, `make bench-clickhouse`: 39 bytes a row of `matches`, 8 in `match_rates`."""

DAY_S: Final = 86_400
MIN_WORKERS: Final = 2
MIN_PARTITIONS: Final = 4
RATES: Final = (10_000, 100_000, 1_000_000, 10_000_000)


def workers(lines_s: int) -> int:
    """At least two, so that one takes over from the other."""
    return max(MIN_WORKERS, ceil(lines_s / LINES_A_CORE_SECOND / BUSY))


def partitions(lines_s: int) -> int:
    """At least twice as many as workers, so that workers can be added, and a power of two."""
    return int(max(MIN_PARTITIONS, 2 ** ceil(log2(2 * workers(lines_s)))))


def kafka_gb_a_day(lines_s: int) -> float:
    """The raw topic's, with all copies."""
    return lines_s * RAW_BYTES * COPIES * DAY_S / 1e9


def store_gb_a_day(lines_s: int) -> float:
    """Those of the table that grows with the lines; it keeps 90 days."""
    return lines_s * MATCHED * MATCH_BYTES * DAY_S / 1e9


def rows() -> list[str]:
    """The rows of the table."""
    return [
        f"| {rate:,} | {rate / LINES_A_CORE_SECOND:.2g} | {workers(rate)} | {partitions(rate)} "
        f"| {workers(rate) * WORKER_GB:.3g} GB | {kafka_gb_a_day(rate):,.0f} GB | {store_gb_a_day(rate):.2g} GB |"
        for rate in RATES
    ]


if __name__ == "__main__":
    print("\n".join(rows()))
