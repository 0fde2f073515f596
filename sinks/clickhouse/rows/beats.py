"""Beats and seats as columns: who was alive, how far each rank was, where it sat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rules.model import Beat, Seat
from sinks.clickhouse.rows.shape import NAME, TIME, Columns, Rows, int32, int64, minute_s, optional_int64, rows_of

MOST_RANKS: Final = 2**32 - 1

LIVENESS: Final[Columns] = (
    ("cluster", NAME),
    ("job", "String"),
    ("node", NAME),
    ("minute", "DateTime('UTC')"),
    ("first_event_time", TIME),
    ("last_event_time", TIME),
    ("last_step", "Nullable(Int64)"),
)

PROGRESS: Final[Columns] = (
    ("cluster", NAME),
    ("job", "String"),
    ("minute", "DateTime('UTC')"),
    ("rank", "Int32"),
    ("node", NAME),
    ("first_event_time", TIME),
    ("last_event_time", TIME),
    ("first_step", "Nullable(Int64)"),
    ("last_step", "Nullable(Int64)"),
    ("saved_step", "Nullable(Int64)"),
)

PLACEMENTS: Final[Columns] = (
    ("cluster", NAME),
    ("job", "String"),
    ("rank", "Int32"),
    ("since", TIME),
    ("node", NAME),
    ("local_rank", "Int32"),
    ("gpu", "String"),
    ("world_size", "UInt32"),
    ("pod", "String"),
)


def liveness_rows(beats: Sequence[Beat]) -> Rows:
    """One row for each cluster, job, node and minute: the first and last event time, the highest step."""
    ends: dict[tuple[str, str, str, int], list[Any]] = {}
    for beat in beats:
        time_ns = int64(beat.event_time_ns)
        known = ends.setdefault((beat.cluster, beat.job, beat.node, minute_s(time_ns)), [time_ns, time_ns, None])
        known[0], known[1] = min(known[0], time_ns), max(known[1], time_ns)
        known[2] = _larger(known[2], beat.step)
    return rows_of("liveness", LIVENESS, ((*key, *ends[key]) for key in sorted(ends)))


def progress_rows(beats: Sequence[Beat]) -> Rows:
    """One row for each cluster, job, minute, rank and node that told a step: the first and the last one."""
    ends: dict[tuple[str, str, int, int, str], list[Any]] = {}
    for beat in beats:
        if beat.step is not None or beat.saved_step is not None:
            time_ns = int64(beat.event_time_ns)
            key = (beat.cluster, beat.job, minute_s(time_ns), int32(beat.rank), beat.node)
            known = ends.setdefault(key, [time_ns, time_ns, optional_int64(beat.step), None, None])
            known[0], known[1] = min(known[0], time_ns), max(known[1], time_ns)
            if beat.step is not None:
                known[2] = int64(beat.step) if known[2] is None else min(known[2], int64(beat.step))
            known[3], known[4] = _larger(known[3], beat.step), _larger(known[4], beat.saved_step)
    return rows_of("progress", PROGRESS, ((*key, *ends[key]) for key in sorted(ends)))


def placement_rows(seats: Sequence[Seat]) -> Rows:
    """One row a banner that names a node, rank -1 where it names none; a mere other name of a node is left out."""
    placed = sorted({_placement(seat): None for seat in seats if seat.node and not seat.address})
    return rows_of("placements", PLACEMENTS, placed)


def _placement(seat: Seat) -> tuple[Any, ...]:
    return (
        seat.cluster,
        seat.job,
        int32(seat.rank),
        int64(seat.time_ns),
        seat.node,
        int32(seat.local_rank),
        seat.gpu,
        min(int64(seat.world_size or 0), MOST_RANKS),
        seat.pod,
    )


def _larger(known: int | None, told: int | None) -> int | None:
    return known if told is None else max(int64(told), -1 if known is None else known)
