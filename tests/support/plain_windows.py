"""A second, plain implementation of windows for comparison: each kind loops over all inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import correlation, linear_regression, median
from typing import NamedTuple


class Event(NamedTuple):
    """An input: its second, its class, its value."""

    second: int
    name: str
    value: int


Fired = list[tuple[int, int]]
"""(second, onset) of each signal."""

Holds = Callable[[list[Event]], int | None]
"""Since when the condition holds for the inputs of one window; None when it does not."""


def windowed(inputs: Sequence[Event], shape: str, length: int, gap: int, holds: Holds) -> Fired:
    fired: Fired = []
    start, quiet_until = 0, -1
    for number, event in enumerate(inputs):
        if fired and event.second <= fired[-1][0]:
            start = number + 1
            continue
        if event.second < quiet_until:
            quiet_until = max(quiet_until, event.second + gap + 1) if shape == "session" else quiet_until
            continue
        since = holds(shaped(inputs[start : number + 1], shape, length, gap))
        if since is not None:
            fired.append((event.second, since))
            start = number + 1
            end_of_tumbling = (event.second // length + 1) * length
            quiet_until = {
                "sliding": event.second + length,
                "tumbling": end_of_tumbling,
                "session": event.second + gap + 1,
            }[shape]
    return fired


def shaped(inputs: Sequence[Event], shape: str, length: int, gap: int) -> list[Event]:
    newest = inputs[-1].second
    if shape == "tumbling":
        return [event for event in inputs if event.second // length == newest // length]
    near = [event for event in inputs if event.second >= newest - length]
    if shape == "sliding":
        return near
    session: list[Event] = []
    for event in near:
        if session and event.second - session[-1].second > gap:
            session = []
        session.append(event)
    return session


def count(least: int) -> Holds:
    return lambda window: window[-least].second if len(window) >= least else None


def distinct(least: int) -> Holds:
    def holds(window: list[Event]) -> int | None:
        newest = {event.value: event.second for event in window}
        return min(newest.values()) if len(newest) >= least else None

    return holds


def all_of(names: Sequence[str]) -> Holds:
    def holds(window: list[Event]) -> int | None:
        newest = {event.name: event.second for event in window if event.name in names}
        return min(newest.values()) if len(newest) == len(names) else None

    return holds


def in_order(names: Sequence[str]) -> Holds:
    def holds(window: list[Event]) -> int | None:
        fitting = [
            some[0].second
            for some in combinations(window, len(names))
            if some[-1] is window[-1] and [event.name for event in some] == list(names)
        ]
        return max(fitting, default=None)

    return holds


def above(limit: float, least: int) -> Holds:
    def holds(window: list[Event]) -> int | None:
        newest = window[-least:]
        return newest[0].second if len(newest) == least and all(event.value > limit for event in newest) else None

    return holds


def rising(by: float, samples: int) -> Holds:
    def holds(window: list[Event]) -> int | None:
        newest = window[-2 * samples :]
        numbers, places = [event.value for event in newest], list(range(len(newest)))
        if len(newest) < samples or len(set(numbers)) == 1:
            return None
        line = linear_regression(places, numbers)
        rise = line.slope * places[-1]
        is_steady = correlation(places, numbers) ** 2 >= 0.8
        return newest[0].second if is_steady and line.intercept > 0 and rise >= by * line.intercept else None

    return holds


def jumping(by: float, samples: int, newest: int) -> Holds:
    def holds(window: list[Event]) -> int | None:
        newest_values = window[-(3 * samples + newest) :]
        before, now = newest_values[:-newest], newest_values[-newest:]
        if len(before) < samples:
            return None
        usual = median(event.value for event in before)
        is_jump = usual > 0 and median(event.value for event in now) > usual * (1 + by)
        return min(event.second for event in now if event.value > usual * (1 + by)) if is_jump else None

    return holds


def absent_after(inputs: Sequence[Event], length: int, until: int) -> Fired:
    """`a` without `b` in the time after."""
    fired: Fired = []
    settled = -1
    for number, event in enumerate(inputs):
        if event.name != "a" or event.second <= settled:
            continue
        answer = next((b.second for b in inputs[number:] if b.name == "b"), None)
        due = event.second + length
        if answer is not None and answer <= due:
            settled = answer
        elif due <= until:
            settled = due
            if not fired or due >= fired[-1][0] + length:
                fired.append((due, event.second))
        else:
            break
    return fired


def absent_before(inputs: Sequence[Event], length: int) -> Fired:
    """`a` without `b` in the time before; quiet for as long after a signal."""
    fired: Fired = []
    for number, event in enumerate(inputs):
        if event.name != "a" or event.second - length < inputs[0].second:
            continue
        has_before = any(b.name == "b" and b.second >= event.second - length for b in inputs[:number])
        if not has_before and (not fired or event.second >= fired[-1][0] + length):
            fired.append((event.second, event.second))
    return fired


def flat(inputs: Sequence[Event], length: int, until: int) -> Fired:
    ends = [*(event.second for event in inputs[1:]), until + 1][: len(inputs)]
    silences = [
        (event.second + length, event.second)
        for event, end in zip(inputs, ends, strict=True)
        if end > event.second + length
    ]
    return [silence for silence in silences if silence[0] <= until]


def new_values(inputs: Sequence[Event], length: int, learn: int) -> Fired:
    return [
        (event.second, event.second)
        for number, event in enumerate(inputs)
        if event.second >= inputs[0].second + learn
        and not any(b.value == event.value and b.second >= event.second - length for b in inputs[:number])
    ]


def more_often(inputs: Sequence[Event], length: int, baseline: int, times: float, least: int) -> list[int]:
    """Seconds of the signals."""
    fired: list[int] = []
    for number, event in enumerate(inputs):
        start = event.second // length * length
        if inputs[0].second > start - baseline * length or (fired and fired[-1] >= start):
            continue
        now = sum(b.second >= start for b in inputs[: number + 1])
        usual = sum(start - baseline * length <= b.second < start for b in inputs) / baseline
        if now >= least and now >= times * usual:
            fired.append(event.second)
    return fired
