"""What a signal costs by the shape of the input, in function calls: `python -m bench.correlate_shapes`.

Calls don't depend on the machine. In the first shapes they don't grow with the number of hosts, jobs or incidents.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from bench.correlate_input import START_NS, happening, rule_set
from epicenter.rules.engine import Engine
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import NS_PER_S

A_TENTH_NS: Final = NS_PER_S // 10
SIZES: Final = (100, 400, 1600)
PIECE: Final = 50


def hosts(count: int) -> Iterator[Match]:
    """Each host of no known job loses a GPU, ten a second: as many open incidents."""
    for number in range(count):
        yield from happening("lost_gpu", START_NS + number * A_TENTH_NS, f"node{number}")


def jobs(count: int) -> Iterator[Match]:
    """A rank of each job times out, ten a second."""
    for number in range(count):
        yield from happening("timed_out_rank", START_NS + number * A_TENTH_NS, f"node{number}", f"job{number}", 0)


def turns(count: int, apart_ns: int = 10 * NS_PER_S) -> Iterator[Match]:
    """Hosts and jobs take turns."""
    for number in range(count):
        at_ns = START_NS + number * apart_ns
        yield from happening("lost_gpu", at_ns, f"idle{number}")
        yield from happening("timed_out_rank", at_ns + NS_PER_S, f"node{number}", f"job{number}", 0)
        yield from happening("out_of_memory", at_ns, f"node{number}", f"other{number}", 0)


def turns_at_once(count: int) -> Iterator[Match]:
    """As `turns`, ten a second: a host is compared with every job that stopped in the same minutes."""
    return turns(count, A_TENTH_NS)


def backwards(count: int) -> Iterator[Match]:
    """As `jobs`, each signal older than the one before, and later than the allowed lateness."""
    for number in range(count):
        at_ns = START_NS + (count - number) * A_TENTH_NS
        yield from happening("timed_out_rank", at_ns, f"node{number}", f"job{number}", 0)


def one_job(count: int) -> Iterator[Match]:
    """One job on as many nodes; a rank of each times out. A report, once a piece, compares all ranks."""
    for number in range(count):
        yield from happening("timed_out_rank", START_NS + number, f"node{number}", "job", number)


def one_node(count: int) -> Iterator[Match]:
    """A program of each job fails, all on one node: each is compared with the others there of the same minutes."""
    for number in range(count):
        yield from happening("out_of_memory", START_NS + number * A_TENTH_NS, "node", f"job{number}", 0)


Shape = Callable[[int], Iterator[Match]]
BOUNDED: Final[tuple[Shape, ...]] = (hosts, jobs, turns, backwards)
NOT_BOUNDED: Final[tuple[Shape, ...]] = (turns_at_once, one_node, one_job)


def calls_per_signal(shape: Shape, count: int) -> float:
    """How many Python functions a signal calls, its share of the reports included."""
    matches, calls = list(shape(count)), 0

    def count_calls(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    engine = Engine(rule_set())
    sys.setprofile(count_calls)
    try:
        for first in range(0, len(matches), PIECE):
            engine.add(matches[first : first + PIECE])
            engine.advance(max(match.event.event_time_ns for match in matches[first : first + PIECE]))
    finally:
        sys.setprofile(None)
    return calls / len(matches)


def main() -> None:
    """Print the calls a signal by shape and size."""
    print(f"{'calls a signal':16}" + "".join(f"{size:>10,}" for size in SIZES))
    for shape in (*BOUNDED, *NOT_BOUNDED):
        print(f"{shape.__name__:16}" + "".join(f"{calls_per_signal(shape, size):10.0f}" for size in SIZES), flush=True)


if __name__ == "__main__":
    main()
