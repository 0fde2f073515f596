"""An input at the time that the clock of most nodes shows."""

from __future__ import annotations

from msgspec import structs

from epicenter.rules.event_time.waiting_list import Input
from epicenter.rules.model.records import Match, RankPlacement


def place_of(arrived: Input) -> tuple[str, str]:
    """The cluster and the node whose clock gave the input its time; no node for a banner, which shows the clock."""
    if type(arrived) is Match:
        return arrived.event.cluster, arrived.event.node
    if type(arrived) is RankPlacement:
        return arrived.cluster, "" if arrived.moment else arrived.node
    return arrived.cluster, arrived.node


def time_of_ns(arrived: Input) -> int:
    """Its event time in ns, as the node logged it."""
    if type(arrived) is Match:
        return arrived.event.event_time_ns
    return arrived.time_ns if type(arrived) is RankPlacement else arrived.event_time_ns


def corrected(arrived: Input, ahead_ns: int) -> Input:
    """The input at the time that the common clock showed, by how much its own was ahead.

    Only matches are dated back: steps and signs of life of a clock that is ahead come late, and at an earlier time they
    would look like a pause.
    """
    time_ns = time_of_ns(arrived) - ahead_ns
    if type(arrived) is Match:
        return structs.replace(arrived, event=structs.replace(arrived.event, event_time_ns=time_ns))
    if ahead_ns > 0:
        return arrived
    if type(arrived) is RankPlacement:
        return structs.replace(arrived, time_ns=time_ns)
    return structs.replace(arrived, event_time_ns=time_ns)
