"""How lines arrive: in which pieces, in which order and how often; as written, and in ways that must change nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.scan.block_buffer import MAX_BLOCK_WAIT_NS
from epicenter.stream.scenarios.lines import Line

FETCH_NS = NS_PER_S
"""A fetch holds lines of one file that were written within this time."""


@dataclass(frozen=True)
class Delivery:
    """Lines of one file that arrive together. `continues`: the file's next lines arrive before a block times out."""

    arrival_ns: int
    lines: tuple[Line, ...]
    continues: bool = False

    @property
    def file(self) -> str:
        """The file of all its lines."""
        return self.lines[0].file


@dataclass(frozen=True)
class Chapter:
    """The deliveries of one step, and the clock time of its end."""

    deliveries: tuple[Delivery, ...]
    end_ns: int


Variation = Callable[[Sequence[Delivery], int, Random], list[Delivery]]
"""Other deliveries of the same lines, from the lateness and a source of chance."""


def as_written(lines: Iterable[Line], now_ns: int) -> tuple[Delivery, ...]:
    """Each line arrives as soon as it is written, or now when it was written before."""
    deliveries: list[Delivery] = []
    by_file: dict[str, list[Line]] = {}
    for line in lines:
        by_file.setdefault(line.file, []).append(line)
    for of_file in by_file.values():
        deliveries += _marked([Delivery(max(fetch[-1].time_ns, now_ns), fetch) for fetch in _fetches(of_file)])
    return tuple(sorted(deliveries, key=_arrival))


def reordered(deliveries: Sequence[Delivery], lateness_ns: int, chance: Random) -> list[Delivery]:
    """Each delivery arrives up to the allowed lateness later; those of one file keep their order."""
    latest_ns: dict[str, int] = {}
    moved = []
    for delivery in deliveries:
        arrival_ns = delivery.arrival_ns + chance.randrange(lateness_ns - FETCH_NS)
        latest_ns[delivery.file] = max(arrival_ns, latest_ns.get(delivery.file, 0))
        moved.append(replace(delivery, arrival_ns=latest_ns[delivery.file]))
    chance.shuffle(moved)
    return _in_order_of_each_file(sorted(moved, key=_arrival))


def lagging(
    deliveries: Sequence[Delivery], lateness_ns: int, chance: Random, first_most: bool = False
) -> list[Delivery]:
    """Each file lags by another amount: by name, the first or the last one by the whole allowed lateness.

    Tried both ways, any two files swap their order at least once. `chance` is not used.
    """
    files = sorted({delivery.file for delivery in deliveries}, reverse=first_most)
    longest_ns, last = lateness_ns - FETCH_NS - 1, max(1, len(files) - 1)
    lag_ns = {file: longest_ns * number // last for number, file in enumerate(files)}
    late = [replace(delivery, arrival_ns=delivery.arrival_ns + lag_ns[delivery.file]) for delivery in deliveries]
    return sorted(late, key=_arrival)


def repeated(deliveries: Sequence[Delivery], lateness_ns: int, chance: Random) -> list[Delivery]:
    """A third arrive again within the allowed lateness, as after a failed commit or a shipper's retry."""
    extra: list[tuple[int, Delivery]] = []
    for number in _whole(deliveries):
        if chance.random() < 1 / 3:
            again = deliveries[number]
            upto = bisect_right(deliveries, again.arrival_ns + lateness_ns - FETCH_NS, lo=number, key=_arrival)
            places = [at for at in range(number, upto) if _can_be_followed(deliveries[at], again)]
            place = chance.choice(places)
            extra.append((place, replace(again, arrival_ns=deliveries[place].arrival_ns)))
    numbered = [(number, delivery) for number, delivery in enumerate(deliveries)] + extra
    return [delivery for _, delivery in sorted(numbered, key=lambda pair: pair[0])]


def cut_up(deliveries: Sequence[Delivery], lateness_ns: int, chance: Random) -> list[Delivery]:
    """Each is cut anywhere, also within a traceback; `lateness_ns` is not used."""
    return [piece for delivery in deliveries for piece in _pieces(delivery, chance)]


def _pieces(delivery: Delivery, chance: Random) -> list[Delivery]:
    count = len(delivery.lines)
    borders = sorted(chance.sample(range(1, count), chance.randrange(count)))
    parts = [delivery.lines[first:last] for first, last in pairwise([0, *borders, count])]
    return [*(replace(delivery, lines=part, continues=True) for part in parts[:-1]), replace(delivery, lines=parts[-1])]


def _fetches(lines: Sequence[Line]) -> list[tuple[Line, ...]]:
    fetches: list[list[Line]] = []
    for line in lines:
        if not fetches or line.time_ns - fetches[-1][0].time_ns >= FETCH_NS:
            fetches.append([])
        fetches[-1].append(line)
    return [tuple(fetch) for fetch in fetches]


def _marked(deliveries: list[Delivery]) -> list[Delivery]:
    """The deliveries of one file, with `continues` set where the next one follows soon."""
    continues = [
        later.lines[0].time_ns - delivery.lines[-1].time_ns < MAX_BLOCK_WAIT_NS
        for delivery, later in pairwise(deliveries)
    ]
    return [replace(delivery, continues=soon) for delivery, soon in zip(deliveries, [*continues, False], strict=True)]


def _whole(deliveries: Sequence[Delivery]) -> list[int]:
    """Those without a part of a block that begins or ends in another delivery."""
    before: dict[str, Delivery] = {}
    whole = []
    for number, delivery in enumerate(deliveries):
        if not (delivery.continues or (delivery.file in before and before[delivery.file].continues)):
            whole.append(number)
        before[delivery.file] = delivery
    return whole


def _can_be_followed(delivery: Delivery, again: Delivery) -> bool:
    return delivery.file == again.file and not delivery.continues


def _in_order_of_each_file(deliveries: list[Delivery]) -> list[Delivery]:
    """Restore the order within each file, among deliveries that were shuffled at the same time."""
    by_file: dict[str, list[Delivery]] = {}
    for delivery in deliveries:
        by_file.setdefault(delivery.file, []).append(delivery)
    in_order = {
        file: iter(sorted(group, key=lambda delivery: delivery.lines[0].number)) for file, group in by_file.items()
    }
    return [next(in_order[delivery.file]) for delivery in deliveries]


def _arrival(delivery: Delivery) -> int:
    return delivery.arrival_ns
