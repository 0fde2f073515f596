"""Inputs that wait for the watermark, and their form in snapshots."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from epicenter.rules.event_time.ordering import Order, heartbeat_order
from epicenter.rules.model.flat_heartbeats import FlatHeartbeat, flattened, unflattened
from epicenter.rules.model.heartbeats import Advanced, Heartbeat, Step
from epicenter.rules.model.records import Match, RankPlacement
from epicenter.rules.model.step_bundle import StepBundle

Input = Match | Heartbeat | RankPlacement
WaitingInput = tuple[Order, int, Input]
Waiting = tuple[Order, int, Input | StepBundle]
"""An input with its order and its number; the number decides between inputs of the same order."""

StoredInput = tuple[Order, int, Match | None, FlatHeartbeat | None, RankPlacement | None]
"""A waiting input as snapshots have it."""


class WaitingList:
    """Inputs in any order until the watermark passes them, then in event-time order. `added` numbers them."""

    def __init__(self, stored: Iterable[StoredInput] = (), added: int = 0):
        self.added = added
        self._waiting = list(map(_restored, stored))
        self._delayed: list[Waiting] = []

    def add(self, order: Order, arrived: Input | StepBundle) -> None:
        """Add an input with its order (see `ordering`)."""
        self.added += 1
        self._waiting.append((order, self.added, arrived))

    def pop_until(self, watermark_ns: int) -> Iterator[Waiting | None]:
        """Remove and yield, in order, the inputs up to the watermark, end included.

        None says that there are no more, unless some are put back now.
        """
        waiting = self._waiting
        waiting.sort()
        count = bisect_right(waiting, watermark_ns, key=_time_ns)
        self._waiting = waiting[count:]
        for due in waiting[:count]:
            while self._delayed and self._delayed[0] < due:
                yield heappop(self._delayed)
            yield due
        is_over = False
        while not is_over:
            while self._has_delayed(watermark_ns):
                yield heappop(self._delayed)
            yield None
            is_over = not self._has_delayed(watermark_ns)
        self._waiting += self._delayed
        self._delayed.clear()

    def delay(self, due: WaitingInput, until_ns: int) -> None:
        """Put back an input that `pop_until` has just yielded: it is to come at that later time."""
        order, number, arrived = due
        later: Waiting = ((until_ns, *order[1:]), number, arrived)
        heappush(self._delayed, later)

    def put_back(self, due: Waiting) -> None:
        """Put back an input, or the rest of one, that `pop_until` has yielded: it is to come at its order."""
        heappush(self._delayed, due)

    def _has_delayed(self, watermark_ns: int) -> bool:
        return bool(self._delayed) and _time_ns(self._delayed[0]) <= watermark_ns

    def newest_ns(self) -> int:
        """The newest event time that waits; 0 if nothing waits."""
        return max(map(_newest_ns, self._waiting), default=0)

    def newest_ns_by_job(self) -> dict[tuple[str, str], int]:
        """By cluster and job, the newest step that waits, else the newest heartbeat."""
        steps: dict[tuple[str, str], int] = {}
        others: dict[tuple[str, str], int] = {}
        for waiting in self._waiting:
            arrived = waiting[-1]
            if not isinstance(arrived, Match | RankPlacement):
                is_step = isinstance(arrived, Step | Advanced | StepBundle)
                newest, job = steps if is_step else others, (arrived.cluster, arrived.job)
                time_ns = arrived.times_ns[-1] if isinstance(arrived, StepBundle) else arrived.event_time_ns
                newest[job] = max(newest.get(job, 0), time_ns)
        return others | steps

    def matches(self) -> list[Match]:
        """The matches that wait, in the order in which they came."""
        return [arrived for *_, arrived in self._waiting if type(arrived) is Match]

    def stored(self) -> list[StoredInput]:
        """The inputs as snapshots have them."""
        return [stored for waiting in self._waiting for stored in _stored(waiting)]


def _time_ns(waiting: Waiting) -> int:
    return waiting[0][0]


def _newest_ns(waiting: Waiting) -> int:
    """Its time; of a bundle, the last one."""
    arrived = waiting[-1]
    return arrived.times_ns[-1] if type(arrived) is StepBundle else _time_ns(waiting)


def _stored(waiting: Waiting) -> Iterator[StoredInput]:
    """Bundles are stored step by step, so that older versions read them."""
    order, number, arrived = waiting
    if type(arrived) is Match:
        yield order, number, arrived, None, None
    elif type(arrived) is RankPlacement:
        yield order, number, None, None, arrived.written()
    elif type(arrived) is StepBundle:
        yield from ((heartbeat_order(step), number, None, flattened(step), None) for step in arrived.steps())
    else:
        yield order, number, None, flattened(arrived), None


def _restored(stored: StoredInput) -> Waiting:
    order, number, match, heartbeat, rank_placement = stored
    arrived = (
        match or (rank_placement.read() if rank_placement else None) or (unflattened(heartbeat) if heartbeat else None)
    )
    assert arrived
    return order, number, arrived
