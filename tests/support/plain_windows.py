"""Windows once more, as plainly as can be: each kind a loop over all inputs, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import correlation, linear_regression, median
from typing import NamedTuple


class Told(NamedTuple):
    """An input: its second, its class, its value."""

    second: int
    name: str
    value: int


Fired = list[tuple[int, int]]
"""(second, onset) of each signal."""

Holds = Callable[[list[Told]], int | None]
"""Since when the condition holds for the inputs of one window; None when it does not."""


def windowed(inputs: Sequence[Told], shape: str, length: int, gap: int, holds: Holds) -> Fired:
    fired: Fired = []
    start, quiet_until = 0, -1
    for number, one in enumerate(inputs):
        if fired and one.second <= fired[-1][0]:
            start = number + 1
            continue
        if one.second < quiet_until:
            quiet_until = max(quiet_until, one.second + gap + 1) if shape == "session" else quiet_until
            continue
        since = holds(shaped(inputs[start : number + 1], shape, length, gap))
        if since is not None:
            fired.append((one.second, since))
            start = number + 1
            end_of_tumbling = (one.second // length + 1) * length
            quiet_until = {
                "sliding": one.second + length,
                "tumbling": end_of_tumbling,
                "session": one.second + gap + 1,
            }[shape]
    return fired


def shaped(inputs: Sequence[Told], shape: str, length: int, gap: int) -> list[Told]:
    newest = inputs[-1].second
    if shape == "tumbling":
        return [one for one in inputs if one.second // length == newest // length]
    near = [one for one in inputs if one.second >= newest - length]
    if shape == "sliding":
        return near
    session: list[Told] = []
    for one in near:
        if session and one.second - session[-1].second > gap:
            session = []
        session.append(one)
    return session


def count(least: int) -> Holds:
    return lambda window: window[-least].second if len(window) >= least else None


def distinct(least: int) -> Holds:
    def holds(window: list[Told]) -> int | None:
        newest = {one.value: one.second for one in window}
        return min(newest.values()) if len(newest) >= least else None

    return holds


def all_of(names: Sequence[str]) -> Holds:
    def holds(window: list[Told]) -> int | None:
        newest = {one.name: one.second for one in window if one.name in names}
        return min(newest.values()) if len(newest) == len(names) else None

    return holds


def in_order(names: Sequence[str]) -> Holds:
    def holds(window: list[Told]) -> int | None:
        fitting = [
            some[0].second
            for some in combinations(window, len(names))
            if some[-1] is window[-1] and [one.name for one in some] == list(names)
        ]
        return max(fitting, default=None)

    return holds


def above(limit: float, least: int) -> Holds:
    def holds(window: list[Told]) -> int | None:
        newest = window[-least:]
        return newest[0].second if len(newest) == least and all(one.value > limit for one in newest) else None

    return holds


def rising(by: float, samples: int) -> Holds:
    def holds(window: list[Told]) -> int | None:
        newest = window[-2 * samples :]
        numbers, places = [one.value for one in newest], list(range(len(newest)))
        if len(newest) < samples or len(set(numbers)) == 1:
            return None
        line = linear_regression(places, numbers)
        rise = line.slope * places[-1]
        is_steady = correlation(places, numbers) ** 2 >= 0.8
        return newest[0].second if is_steady and line.intercept > 0 and rise >= by * line.intercept else None

    return holds


def jumping(by: float, samples: int, newest: int) -> Holds:
    def holds(window: list[Told]) -> int | None:
        kept = window[-(3 * samples + newest) :]
        before, now = kept[:-newest], kept[-newest:]
        if len(before) < samples:
            return None
        usual = median(one.value for one in before)
        is_jump = usual > 0 and median(one.value for one in now) > usual * (1 + by)
        return min(one.second for one in now if one.value > usual * (1 + by)) if is_jump else None

    return holds


def absent_after(inputs: Sequence[Told], length: int, until: int) -> Fired:
    """`a` without `b` in the time after."""
    fired: Fired = []
    settled = -1
    for number, one in enumerate(inputs):
        if one.name != "a" or one.second <= settled:
            continue
        answer = next((b.second for b in inputs[number:] if b.name == "b"), None)
        due = one.second + length
        if answer is not None and answer <= due:
            settled = answer
        elif due <= until:
            settled = due
            if not fired or due >= fired[-1][0] + length:
                fired.append((due, one.second))
        else:
            break
    return fired


def absent_before(inputs: Sequence[Told], length: int) -> Fired:
    """`a` without `b` in the time before; quiet for as long after a signal."""
    fired: Fired = []
    for number, one in enumerate(inputs):
        if one.name != "a" or one.second - length < inputs[0].second:
            continue
        has_before = any(b.name == "b" and b.second >= one.second - length for b in inputs[:number])
        if not has_before and (not fired or one.second >= fired[-1][0] + length):
            fired.append((one.second, one.second))
    return fired


def flat(inputs: Sequence[Told], length: int, until: int) -> Fired:
    ends = [*(one.second for one in inputs[1:]), until + 1][: len(inputs)]
    silences = [
        (one.second + length, one.second) for one, end in zip(inputs, ends, strict=True) if end > one.second + length
    ]
    return [one for one in silences if one[0] <= until]


def new_values(inputs: Sequence[Told], length: int, learn: int) -> Fired:
    return [
        (one.second, one.second)
        for number, one in enumerate(inputs)
        if one.second >= inputs[0].second + learn
        and not any(b.value == one.value and b.second >= one.second - length for b in inputs[:number])
    ]


def more_often(inputs: Sequence[Told], length: int, baseline: int, times: float, least: int) -> list[int]:
    """Seconds of the signals."""
    fired: list[int] = []
    for number, one in enumerate(inputs):
        start = one.second // length * length
        if inputs[0].second > start - baseline * length or (fired and fired[-1] >= start):
            continue
        now = sum(b.second >= start for b in inputs[: number + 1])
        usual = sum(start - baseline * length <= b.second < start for b in inputs) / baseline
        if now >= least and now >= times * usual:
            fired.append(one.second)
    return fired
