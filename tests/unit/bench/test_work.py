"""When the count of a bench's work is a mistake."""

from __future__ import annotations

import re

import pytest

from bench.work import Growth, Row
from bench.work_count import SEARCHES, Calls


def look_at(lines: list[str]) -> int:
    return sum(bool(re.compile("a").search(line)) for line in lines)


def test_calls_of_python_and_of_c_are_counted() -> None:
    calls = Calls(lambda: [look_at(["a", "b"]) for _ in range(3)])
    assert (calls.of(look_at), calls.of(SEARCHES), calls.of(look_at, SEARCHES), calls.ours) == (3, 6, 9, 0)


def test_a_function_that_is_never_called_counts_as_none() -> None:
    assert Calls(lambda: None).of(look_at) == 0


@pytest.mark.parametrize(
    ("recorded", "now", "mistake"),
    [
        (100, 110, ""),
        (100, 111, "more work than recorded"),
        (100, 50, ""),
        (100, 49, "much less work than recorded"),
        (None, 1, "only one of the two"),
        (1, None, "only one of the two"),
    ],
)
def test_a_count_is_a_mistake_a_tenth_above_its_record_and_below_half_of_it(
    recorded: int | None, now: int | None, mistake: str
) -> None:
    found = Row("match", "lines parsed", recorded, now).mistake
    assert mistake in found and bool(mistake) == bool(found)


def test_work_that_more_than_doubles_with_twice_the_input_is_a_mistake() -> None:
    assert not Growth("match", (10, 20), (100, 220)).mistake
    assert "grows with their number" in Growth("match", (10, 20), (100, 221)).mistake
    assert not Growth("match", (10, 30), (100, 330)).mistake
