"""Conditions on a series of numbers, oldest first: too high or low, a steady rise, a jump."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

CLOSE_FIT: Final = 0.8
"""A rise is steady if a straight line explains this much of it; of a single jump it explains at most three quarters."""


def threshold(
    numbers: Sequence[float], least: int, above: float | None, below: float | None
) -> dict[str, float] | None:
    """The figures if the newest `least` numbers are all beyond the limit, else None."""
    newest = numbers[-least:]
    is_beyond = all(_beyond(number, above, below) for number in newest)
    return {"value": newest[-1]} if len(newest) == least and is_beyond else None


def slope(numbers: Sequence[float], samples: int, by: float) -> dict[str, float] | None:
    """The figures if at least `samples` numbers rise steadily by the share `by` of their first level, else None.

    The line is that of least squares over the index of the numbers, so a pause between them changes nothing.
    """
    count = len(numbers)
    if count < samples or _is_level(numbers, by):
        return None
    middle, mean = (count - 1) / 2, sum(numbers) / count
    spread = sum((place - middle) ** 2 for place in range(count))
    together = sum((place - middle) * (number - mean) for place, number in enumerate(numbers))
    variation = sum((number - mean) ** 2 for number in numbers)
    rise = together / spread * (count - 1)
    first = mean - rise / 2
    is_steady = variation > 0 and together**2 / spread >= CLOSE_FIT * variation
    if not is_steady or first <= 0 or rise < by * first:
        return None
    return {"first": numbers[0], "last": numbers[-1], "rise_percent": 100 * rise / first}


def spike(numbers: Sequence[float], samples: int, newest: int, by: float) -> dict[str, float] | None:
    """The figures if the median of the `newest` numbers exceeds that of those before by the share `by`, else None."""
    before, now = numbers[:-newest], numbers[-newest:]
    if len(before) < samples or max(now) <= min(before) * (1 + by):
        return None
    usual, value = median(before), median(now)
    if usual <= 0 or value <= usual * (1 + by):
        return None
    return {"usual": usual, "value": value, "rise_percent": 100 * (value / usual - 1)}


def _is_level(numbers: Sequence[float], by: float) -> bool:
    """Whether no line through the numbers can rise that much: its rise is below one and a half times their range."""
    least, most = min(numbers), max(numbers)
    return 1.5 * (most - least) < by * (least - 0.75 * (most - least))


def _beyond(number: float, above: float | None, below: float | None) -> bool:
    return (above is not None and number > above) or (below is not None and number < below)
