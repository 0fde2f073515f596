"""The memory of unnamed messages: habits are dropped, and it stays small."""

from __future__ import annotations

from itertools import pairwise

from epicenter.rules.model.signals import Signal
from epicenter.rules.unnamed.memory import MAX_OCCURRENCES, MAX_TEMPLATES, UnnamedMemory
from tests.support.signals import a_signal


def unnamed(template: str, cluster: str = "default") -> Signal:
    return a_signal("unnamed-failure", 0, cluster=cluster, fields={"template": template})


def test_a_message_that_keeps_coming_is_dropped_as_a_habit() -> None:
    memory = UnnamedMemory()
    admitted = [memory.admits(unnamed("lamp out")) for _ in range(MAX_OCCURRENCES + 10)]
    assert admitted == [True] * MAX_OCCURRENCES + [False] * 10
    assert memory.dropped == 10


def test_a_habit_of_one_cluster_is_none_of_another() -> None:
    memory = UnnamedMemory()
    for _ in range(MAX_OCCURRENCES + 1):
        memory.admits(unnamed("lamp out"))
    assert memory.admits(unnamed("lamp out", cluster="east"))


def test_messages_without_end_take_no_more_room() -> None:
    memory = UnnamedMemory()
    sizes = []
    for number in range(MAX_TEMPLATES + 100):
        memory.admits(unnamed(f"word{number:x}"))
        sizes.append(len(memory.occurrences))
    assert max(sizes) == MAX_TEMPLATES
    assert all(before <= after for before, after in pairwise(sizes))


def test_the_message_that_was_silent_for_longest_is_forgotten_first() -> None:
    memory = UnnamedMemory()
    memory.admits(unnamed("first"))
    memory.admits(unnamed("second"))
    memory.admits(unnamed("first"))
    for number in range(MAX_TEMPLATES - 1):
        memory.admits(unnamed(f"word{number:x}"))
    assert "default/first" in memory.occurrences
    assert "default/second" not in memory.occurrences
