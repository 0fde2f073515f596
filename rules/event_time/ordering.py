"""The order in which inputs are processed: by event time, then by content; arrival order means nothing."""

from __future__ import annotations

from typing import Any, Final

from epicenter.rules.model.flat_heartbeats import facts_of
from epicenter.rules.model.heartbeats import Heartbeat
from epicenter.rules.model.records import Match, RankPlacement
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.step_bundle import StepBundle

Order = tuple[int, int, str, str, str, int, int, str, str]

_NO_MORE: Final = "/0/None"
"""Neither phase nor world size nor saved step nor time of computation."""


def match_order(match: Match) -> Order:
    """Matches come after heartbeats and rank placements of the same time."""
    event = match.event
    rank = -1 if event.rank is None else event.rank
    place = event.position
    who = (event.node, event.source, event.job, rank)
    return (event.event_time_ns, 1, *who, place.offset, match.match_id, place.source)


def heartbeat_order(heartbeat: Heartbeat) -> Order:
    """Heartbeats come first at their time."""
    step, rank, phase, world_size, saved_step, compute_ns = facts_of(heartbeat)
    has_more = phase or world_size or compute_ns is not None
    return (
        heartbeat.event_time_ns,
        0,
        heartbeat.node,
        heartbeat.source,
        heartbeat.job,
        -1 if step is None else step,
        -1 if rank is None else rank,
        heartbeat.cluster,
        f"{phase}/{world_size}/{saved_step}/{compute_ns}" if has_more else _NO_MORE,
    )


def bundle_order(bundle: StepBundle, number: int = 0) -> Order:
    """As its first step, or the one with this number."""
    rank, compute_ns = bundle.ranks[number], bundle.compute_ns[number]
    return (
        bundle.times_ns[number],
        0,
        bundle.node,
        bundle.source,
        bundle.job,
        bundle.step,
        -1 if rank is None else rank,
        bundle.cluster,
        _NO_MORE if compute_ns is None else f"{_NO_MORE}/{compute_ns}",
    )


def count_before(bundle: StepBundle, order: tuple[Any, ...]) -> int:
    """How many of its steps come before an input of this order that is taken later; the order may be a time alone."""
    count, end = bundle.count_until(order[0]), len(bundle.ranks)
    while count < end and bundle.times_ns[count] == order[0] and bundle_order(bundle, count) <= order:
        count += 1
    return count


def placement_order(rank_placement: RankPlacement) -> Order:
    """With the heartbeats: where ranks run is known before anything else at that time is processed, and pods first."""
    rank, local_rank = (-1 if number is None else number for number in (rank_placement.rank, rank_placement.local_rank))
    size = rank_placement.world_size or 0
    world = str(size if rank_placement.is_start else -size)
    rest = (
        rank,
        local_rank,
        rank_placement.cluster,
        f"{rank_placement.gpu}/{rank_placement.address}/{rank_placement.pod}/{rank_placement.is_listed}"
        f"/{rank_placement.moment}/{rank_placement.pid}/{rank_placement.node_index}/{rank_placement.is_allocated}"
        f"/{rank_placement.node if rank_placement.pod else ''}",
    )
    node = "" if rank_placement.pod else rank_placement.node
    return (rank_placement.time_ns, 0, node, world, rank_placement.job, *rest)


def onset_order(signal: Signal) -> tuple[int, int, str, str, int, str]:
    """Earliest onset first, then the order in a plain file; the rest makes the order the same everywhere."""
    line = signal.position.offset if signal.log and signal.position else 0
    return (signal.onset_ns, signal.event_time_ns, signal.node, signal.log, line, signal.signal_id)
