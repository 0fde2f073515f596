"""The memory of unnamed messages: habits are dropped, it knows what is unusual, and it stays small."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.model.signals import Signal
from epicenter.rules.model.unusual import Unusual
from epicenter.rules.unnamed.memory import (
    MAX_HOURS,
    MAX_JOBS,
    MAX_LINES,
    MAX_MESSAGES,
    MAX_PLACES,
    MAX_RECENT_JOBS,
    MAX_RECENT_MESSAGES,
    UnnamedMemory,
)
from tests.support.logs import at
from tests.support.signals import a_signal

HOUR_S = 3600


def unnamed(template: str = "lamp out", second: float = 0, cluster: str = "default", **more: object) -> Signal:
    return a_signal("unnamed-failure", second, cluster=cluster, fields={"template": template}, **more)


def after(*lines: Signal, of_nodes: int = 8, of_ranks: int | None = 64) -> Unusual:
    """What is known of the last line."""
    memory = UnnamedMemory()
    for line in lines:
        memory.admits(line)
    found = memory.unusual(lines[-1], of_nodes, of_ranks)
    assert found
    return found


def test_a_message_that_keeps_coming_is_dropped_as_a_habit() -> None:
    memory = UnnamedMemory()
    admitted = [memory.admits(unnamed()) for _ in range(MAX_LINES + 10)]
    assert admitted == [True] * MAX_LINES + [False] * 10
    assert memory.dropped == 10


def test_a_habit_of_one_cluster_is_none_of_another() -> None:
    memory = UnnamedMemory()
    for _ in range(MAX_LINES + 1):
        memory.admits(unnamed())
    assert memory.admits(unnamed(cluster="east"))


def test_messages_without_end_take_no_more_room() -> None:
    memory = UnnamedMemory()
    sizes = []
    for number in range(MAX_MESSAGES + 100):
        memory.admits(unnamed(f"word{number:x}"))
        sizes.append(len(memory.messages))
    assert max(sizes) == MAX_MESSAGES
    assert all(before <= after for before, after in pairwise(sizes))


def test_the_message_that_was_silent_for_longest_is_forgotten_first() -> None:
    memory = UnnamedMemory()
    for template in ("first", "second", "first"):
        memory.admits(unnamed(template))
    for number in range(MAX_MESSAGES - 1):
        memory.admits(unnamed(f"word{number:x}"))
    assert "default/first" in memory.messages
    assert "default/second" not in memory.messages


@pytest.mark.parametrize(
    ("earlier", "first_in"),
    [
        ((), "cluster"),
        ((unnamed(job="B", node="n2"),), "job"),
        ((unnamed(job="A", node="n2"),), "node"),
        ((unnamed(job="A", node="n1"),), ""),
        ((unnamed(cluster="east", job="A", node="n1"),), "cluster"),
    ],
    ids=["nowhere", "another-job", "another-node", "here", "another-cluster"],
)
def test_a_line_is_the_first_of_its_message_in_a_place(earlier: tuple[Signal, ...], first_in: str) -> None:
    assert after(*earlier, unnamed(second=60, job="A", node="n1")).first_in == first_in


def test_a_message_that_may_have_been_forgotten_is_not_called_the_first() -> None:
    memory = UnnamedMemory()
    for number in range(MAX_MESSAGES + 1):
        memory.admits(unnamed(f"word{number:x}", job="A"))
    memory.admits(line := unnamed(job="A", second=9))
    found = memory.unusual(line, 1, None)
    assert found and found.first_in is None


def test_nodes_and_ranks_are_counted_by_job() -> None:
    alone = after(unnamed(job="B", node="n2", rank=9), unnamed(job="A", node="n1", rank=3, second=1))
    assert (alone.nodes, alone.of_nodes, alone.ranks, alone.of_ranks, alone.is_alone) == (1, 8, 1, 64, True)
    many = after(*(unnamed(job="A", node=f"n{rank // 2}", rank=rank, second=rank) for rank in range(4)))
    assert (many.nodes, many.ranks, many.is_alone) == (2, 4, False)


def test_a_job_of_one_rank_is_not_alone() -> None:
    assert not after(unnamed(job="A", rank=0), of_nodes=1, of_ranks=1).is_alone
    assert not after(unnamed(job="A"), of_nodes=1, of_ranks=None).is_alone


def test_hours_without_an_incident_are_counted() -> None:
    memory = UnnamedMemory()
    memory.record_incident("default", at(2 * HOUR_S))
    memory.record_incident("east", at(HOUR_S))
    for hour in (0, 0.1, 1, 2, 5):
        memory.admits(line := unnamed(second=hour * HOUR_S, job="A"))
    found = memory.unusual(line, 1, None)
    assert found and found.healthy_hours == 2


def test_stops_of_other_jobs_soon_after_it_are_counted() -> None:
    memory = UnnamedMemory()
    for number, (job, stop) in enumerate((("A", 60), ("B", 900), ("C", 60), ("A", 60))):
        memory.admits(line := unnamed(second=number * HOUR_S, job=job))
        memory.record_stop("default", job, at(number * HOUR_S + stop))
        memory.record_stop("default", job, at(number * HOUR_S + stop))
    found = memory.unusual(line, 1, None)
    assert found and found.stops == 1


LINES = st.builds(
    unnamed,
    template=st.sampled_from("abc"),
    second=st.floats(0, 40 * HOUR_S),
    job=st.sampled_from(["", *map(str, range(MAX_JOBS + 2))]),
    node=st.sampled_from([f"n{number}" for number in range(2 * MAX_PLACES)]),
    rank=st.integers(0, 2 * MAX_PLACES) | st.none(),
)


@given(st.lists(LINES, max_size=120), st.integers(0, 119))
def test_it_is_bounded_and_continues_from_a_snapshot(lines: list[Signal], cut: int) -> None:
    lines.sort(key=lambda line: line.event_time_ns)
    whole, restored = UnnamedMemory(), UnnamedMemory()
    for number, line in enumerate(lines):
        if number == cut:
            restored = msgspec.msgpack.decode(msgspec.msgpack.encode(restored), type=UnnamedMemory)
        for memory in (whole, restored):
            memory.admits(line)
            if line.rank == 0:
                memory.record_stop(line.cluster, line.job, line.event_time_ns)
                memory.record_incident(line.cluster, line.event_time_ns)
    assert [whole.unusual(line, 8, 64) for line in lines] == [restored.unusual(line, 8, 64) for line in lines]
    for message in whole.messages.values():
        assert len(message.by_job) <= MAX_JOBS
        assert all(max(len(of_job.nodes), len(of_job.ranks)) <= MAX_PLACES for of_job in message.by_job.values())


def test_hours_and_jobs_without_end_take_no_more_room() -> None:
    memory = UnnamedMemory()
    for number in range(MAX_RECENT_JOBS + 10):
        memory.record_incident("default", at(number * HOUR_S))
        memory.admits(unnamed(f"word{number:x}", number, job=str(number)))
        memory.admits(unnamed(f"word{number:x}", number, job="A"))
    assert len(memory.eventful_hours["default"]) == MAX_HOURS
    assert len(memory.recent) == MAX_RECENT_JOBS
    assert len(memory.recent["default/A"]) == MAX_RECENT_MESSAGES
