"""The signals of an incident by one clock: without the skew of the nodes where it is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from epicenter.rules.cause.collectives import CollectiveTable
from epicenter.rules.cause.ranking import Candidate
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.event_time.skew import coarse_skews_ns
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S

MIN_SKEW_NS: Final = NS_PER_S
"""A smaller skew changes no order that the edges do not allow for."""


def skews_ns(state: IncidentState) -> dict[str, int]:
    """How far each node's clock is ahead, from the time before the incident, else from timeouts that came at once."""
    known = _by_timeouts(state.collectives) | state.skews_ns
    return {node: skew_ns for node, skew_ns in known.items() if abs(skew_ns) >= MIN_SKEW_NS}


def in_common_time(signals: Sequence[Signal], skews: dict[str, int]) -> list[Signal]:
    """The signals with times by the clock of most nodes."""
    return [_shifted(signal, skews.get(signal.node, 0)) for signal in signals] if skews else list(signals)


def as_logged(ranked: Sequence[Candidate], signals: Iterable[Signal]) -> list[Candidate]:
    """The candidates with the times of their lines."""
    logged = {signal.signal_id: signal for signal in signals}
    return [replace(candidate, signal=logged[candidate.signal.signal_id]) for candidate in ranked]


def _by_timeouts(table: CollectiveTable) -> dict[str, int]:
    """All ranks that wait in the same collective give up at once."""
    skews: dict[str, int] = {}
    for job in table.jobs():
        times_ns: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for rows in table.groups(job).values():
            for row in rows.values():
                if row.work and row.place:
                    of_collective, node, time_ns = times_ns[row.work.seq], row.place[1], row.work.event_time_ns
                    if time_ns < of_collective.get(node, 1 << 63):
                        of_collective[node] = time_ns
        most = max(times_ns.values(), key=len, default={})
        skews |= coarse_skews_ns(most)
    return skews


def _shifted(signal: Signal, skew_ns: int) -> Signal:
    if not skew_ns:
        return signal
    times = {"event_time_ns": signal.event_time_ns - skew_ns, "onset_ns": signal.onset_ns - skew_ns}
    return structs.replace(signal, **times)
