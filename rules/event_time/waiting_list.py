"""Inputs that wait for the watermark, and their form in snapshots."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from epicenter.rules.event_time.ordering import Order
from epicenter.rules.model.flat_heartbeats import FlatHeartbeat, flattened, unflattened
from epicenter.rules.model.heartbeats import Advanced, Heartbeat, Step
from epicenter.rules.model.records import Match, RankPlacement

Input = Match | Heartbeat | RankPlacement
Waiting = tuple[Order, int, Input]
"""An input with its order and its number; the number decides between inputs of the same order."""

StoredInput = tuple[Order, int, Match | None, FlatHeartbeat | None, RankPlacement | None]
"""A waiting input as snapshots have it."""


class WaitingList:
    """Inputs in any order until the watermark passes them, then in event-time order. `added` numbers them."""

    def __init__(self, stored: Iterable[StoredInput] = (), added: int = 0):
        self.added = added
        self._waiting = list(map(_restored, stored))
        self._delayed: list[Waiting] = []

    def add(self, order: Order, arrived: Input) -> None:
        """Add an input with its order (see `ordering`)."""
        self.added += 1
        self._waiting.append((order, self.added, arrived))

    def pop_until(self, watermark_ns: int) -> Iterator[Waiting]:
        """Remove and yield, in order, the inputs up to the watermark, end included."""
        waiting = self._waiting
        waiting.sort()
        count = bisect_right(waiting, watermark_ns, key=_time_ns)
        self._waiting = waiting[count:]
        for due in waiting[:count]:
            while self._delayed and self._delayed[0] < due:
                yield heappop(self._delayed)
            yield due
        while self._delayed and _time_ns(self._delayed[0]) <= watermark_ns:
            yield heappop(self._delayed)
        self._waiting += self._delayed
        self._delayed.clear()

    def delay(self, due: Waiting, until_ns: int) -> None:
        """Put back an input that `pop_until` has just yielded: it is to come at that later time."""
        order, number, arrived = due
        later: Waiting = ((until_ns, *order[1:]), number, arrived)
        heappush(self._delayed, later)

    def newest_ns(self) -> int:
        """The newest event time that waits; 0 if nothing waits."""
        return max(map(_time_ns, self._waiting), default=0)

    def newest_ns_by_job(self) -> dict[tuple[str, str], int]:
        """By cluster and job, the newest step that waits, else the newest heartbeat."""
        steps: dict[tuple[str, str], int] = {}
        others: dict[tuple[str, str], int] = {}
        for *_, arrived in self._waiting:
            if not isinstance(arrived, Match | RankPlacement):
                newest, job = steps if isinstance(arrived, Step | Advanced) else others, (arrived.cluster, arrived.job)
                newest[job] = max(newest.get(job, 0), arrived.event_time_ns)
        return others | steps

    def matches(self) -> list[Match]:
        """The matches that wait, in the order in which they came."""
        return [arrived for *_, arrived in self._waiting if type(arrived) is Match]

    def stored(self) -> list[StoredInput]:
        """The inputs as snapshots have them."""
        return list(map(_stored, self._waiting))


def _time_ns(waiting: Waiting) -> int:
    return waiting[0][0]


def _stored(waiting: Waiting) -> StoredInput:
    order, number, arrived = waiting
    if type(arrived) is Match:
        return order, number, arrived, None, None
    if type(arrived) is RankPlacement:
        return order, number, None, None, arrived.written()
    return order, number, None, flattened(arrived), None


def _restored(stored: StoredInput) -> Waiting:
    order, number, match, heartbeat, rank_placement = stored
    arrived = (
        match or (rank_placement.read() if rank_placement else None) or (unflattened(heartbeat) if heartbeat else None)
    )
    assert arrived
    return order, number, arrived
