"""Heartbeats as messages and snapshots have them: one shape with a column for every fact."""

from __future__ import annotations

from typing import Final

import msgspec

from epicenter.rules.model.heartbeats import (
    CHECKPOINT,
    Advanced,
    Alive,
    CheckpointSaved,
    Heartbeat,
    LastStep,
    LineCut,
    MayAdvance,
    NodeCount,
    PhaseBegan,
    Step,
    WorldSize,
)

Facts = tuple[int | None, int | None, str, int, int | None, int | None]
"""Step, rank, phase, world size, saved step and time of computation, as the columns have them."""

_NODES: Final = "nodes"
_CUT: Final = "cut"
_PROGRESS: Final = "progress"
_LAST: Final = "last"
_UNTIL: Final = "until"


class FlatHeartbeat(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One heartbeat. Unused columns are None, an empty `phase` or a `world_size` of 0.

    `phase` is what began, or `progress`, `until`, `cut`, `last` or `nodes`; with the last of these, `world_size` counts
    nodes. `saved_step` is also the step that is the `last`, `compute_ns` also the time of `until`.
    """

    event_time_ns: int
    cluster: str
    job: str
    node: str
    step: int | None = None
    rank: int | None = None
    source: str = "worker"
    phase: str = ""
    world_size: int = 0
    saved_step: int | None = None
    compute_ns: int | None = None


def flattened(heartbeat: Heartbeat) -> FlatHeartbeat:
    """The heartbeat in its columns."""
    step, rank, phase, world_size, saved_step, compute_ns = facts_of(heartbeat)
    return FlatHeartbeat(
        heartbeat.event_time_ns,
        heartbeat.cluster,
        heartbeat.job,
        heartbeat.node,
        step,
        rank,
        heartbeat.source,
        phase,
        world_size,
        saved_step,
        compute_ns,
    )


def facts_of(heartbeat: Heartbeat) -> Facts:
    """The values of its columns."""
    if type(heartbeat) is Alive:
        return None, heartbeat.rank, "", 0, None, None
    if type(heartbeat) is Step:
        return heartbeat.step, heartbeat.rank, "", 0, None, heartbeat.compute_ns
    if type(heartbeat) is WorldSize:
        return None, heartbeat.rank, "", heartbeat.world_size, None, None
    if type(heartbeat) is PhaseBegan:
        return None, None, heartbeat.phase, 0, None, None
    if type(heartbeat) is Advanced:
        return None, None, _PROGRESS, 0, None, None
    if type(heartbeat) is MayAdvance:
        return None, None, _UNTIL, 0, None, heartbeat.until_ns
    if type(heartbeat) is CheckpointSaved:
        return None, None, CHECKPOINT, 0, heartbeat.step, None
    if type(heartbeat) is LastStep:
        return None, None, _LAST, 0, heartbeat.step, None
    if type(heartbeat) is NodeCount:
        return None, None, _NODES, heartbeat.nodes, None, None
    return None, heartbeat.rank, _CUT, 0, None, None


def unflattened(flat: FlatHeartbeat) -> Heartbeat:
    """The heartbeat of these columns. The most frequent kinds are made without `*`, which takes five times as long."""
    if flat.step is not None:
        who_ns, cluster = flat.event_time_ns, flat.cluster
        return Step(who_ns, cluster, flat.job, flat.node, flat.step, flat.rank, flat.compute_ns, source=flat.source)
    if flat.saved_step is None and not flat.phase and not flat.world_size:
        return Alive(flat.event_time_ns, flat.cluster, flat.job, flat.node, flat.rank, source=flat.source)
    who = (flat.event_time_ns, flat.cluster, flat.job, flat.node)
    if flat.saved_step is not None:
        of_step = LastStep if flat.phase == _LAST else CheckpointSaved
        return of_step(*who, flat.saved_step, source=flat.source)
    if flat.phase:
        return _of_phase(flat, who)
    return WorldSize(*who, flat.world_size, flat.rank, source=flat.source)


def _of_phase(flat: FlatHeartbeat, who: tuple[int, str, str, str]) -> Heartbeat:
    if flat.phase == _PROGRESS:
        return Advanced(*who, source=flat.source)
    if flat.phase == _UNTIL and flat.compute_ns is not None:
        return MayAdvance(*who, flat.compute_ns, source=flat.source)
    if flat.phase == _CUT:
        return LineCut(*who, flat.rank, source=flat.source)
    if flat.phase == _NODES and flat.world_size:
        return NodeCount(*who, flat.world_size, source=flat.source)
    return PhaseBegan(*who, flat.phase, source=flat.source)
