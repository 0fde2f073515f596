"""Heartbeats, rank placements and states of jobs as columns: liveness, progress, placement, state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from epicenter.rules.model.heartbeats import CheckpointSaved, Heartbeat, Step
from epicenter.rules.model.ledger import JobState
from epicenter.rules.model.records import RankPlacement
from epicenter.sinks.clickhouse.rows.shape import NAME, TIME, Columns, Rows, int32, int64, minute_s, rows_of

MAX_RANKS: Final = 2**32 - 1

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

JOB_STATES: Final[Columns] = (
    ("cluster", NAME),
    ("job", "String"),
    ("time", TIME),
    ("phase", NAME),
    ("since", TIME),
    ("attempt", TIME),
    ("outcome", NAME),
    ("verdict", NAME),
    ("node", NAME),
    ("rank", "Int32"),
    ("text", "String"),
    ("world_size", "UInt32"),
    ("behind", "Array(Int32)"),
    ("quiet", "Array(Int32)"),
    ("lost_nodes", "Array(String)"),
)


def liveness_rows(heartbeats: Sequence[Heartbeat]) -> Rows:
    """One row per cluster, job, node and minute: the first and last event time, the highest step."""
    ends: dict[tuple[str, str, str, int], list[Any]] = {}
    for heartbeat in heartbeats:
        time_ns = int64(heartbeat.event_time_ns)
        key = (heartbeat.cluster, heartbeat.job, heartbeat.node, minute_s(time_ns))
        known = ends.setdefault(key, [time_ns, time_ns, None])
        known[0], known[1] = min(known[0], time_ns), max(known[1], time_ns)
        if isinstance(heartbeat, Step):
            known[2] = _larger(known[2], heartbeat.step)
    return rows_of("liveness", LIVENESS, ((*key, *ends[key]) for key in sorted(ends)))


def progress_rows(heartbeats: Sequence[Heartbeat]) -> Rows:
    """One row per cluster, job, minute, rank and node with a step: the first and the last one."""
    ends: dict[tuple[str, str, int, int, str], list[Any]] = {}
    for heartbeat in heartbeats:
        if isinstance(heartbeat, Step | CheckpointSaved):
            time_ns = int64(heartbeat.event_time_ns)
            rank = heartbeat.rank if isinstance(heartbeat, Step) else None
            key = (heartbeat.cluster, heartbeat.job, minute_s(time_ns), int32(rank), heartbeat.node)
            known = ends.setdefault(key, [time_ns, time_ns, None, None, None])
            known[0], known[1] = min(known[0], time_ns), max(known[1], time_ns)
            if isinstance(heartbeat, Step):
                known[2] = _smaller(known[2], heartbeat.step)
                known[3] = _larger(known[3], heartbeat.step)
            else:
                known[4] = _larger(known[4], heartbeat.step)
    return rows_of("progress", PROGRESS, ((*key, *ends[key]) for key in sorted(ends)))


def placement_rows(rank_placements: Sequence[RankPlacement]) -> Rows:
    """One row per placement with a node, rank -1 if unknown; address-only placements are left out."""
    placed = sorted(
        {
            _placement(rank_placement): None
            for rank_placement in rank_placements
            if rank_placement.node and not rank_placement.address
        }
    )
    return rows_of("placements", PLACEMENTS, placed)


def job_state_rows(states: Sequence[JobState]) -> Rows:
    """One row per job: its newest state in the batch."""
    newest: dict[tuple[str, str], JobState] = {}
    for state in states:
        key = state.cluster, state.job
        if key not in newest or state.time_ns >= newest[key].time_ns:
            newest[key] = state
    return rows_of("job_states", JOB_STATES, map(_job_state, newest.values()))


def _job_state(state: JobState) -> tuple[Any, ...]:
    return (
        state.cluster,
        state.job,
        int64(state.time_ns),
        str(state.phase),
        int64(state.since_ns),
        int64(state.attempt_ns),
        str(state.end),
        state.verdict,
        state.node,
        int32(state.rank),
        state.text,
        min(int64(state.world_size), MAX_RANKS),
        [int32(rank) for rank in state.behind],
        [int32(rank) for rank in state.quiet],
        list(state.lost_nodes),
    )


def _placement(rank_placement: RankPlacement) -> tuple[Any, ...]:
    return (
        rank_placement.cluster,
        rank_placement.job,
        int32(rank_placement.rank),
        int64(rank_placement.time_ns),
        rank_placement.node,
        int32(rank_placement.local_rank),
        rank_placement.gpu,
        min(int64(rank_placement.world_size or 0), MAX_RANKS),
        rank_placement.pod,
    )


def _smaller(known: int | None, step: int) -> int:
    return int64(step) if known is None else min(known, int64(step))


def _larger(known: int | None, step: int) -> int:
    return max(int64(step), -1 if known is None else known)
