"""Thirty days of incidents as a strip of bars. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.overview import DayCount
from epicenter.sinks.text import humanize

DAYS: Final = 30
DAY_NS: Final = 86_400 * NS_PER_S
HEIGHT_PX: Final = 28.0
STEP_PX: Final = 10.0
MIN_BAR_PX: Final = 3.0


class Bar(msgspec.Struct, frozen=True):
    """A day: its date, its bar and the part of it that is open, from the bottom up."""

    date: str
    x: float
    height: float
    open_height: float
    count: int
    title: str


class Strip(msgspec.Struct, frozen=True):
    """The bars, oldest first, today last; `total` is the number of incidents in them."""

    bars: tuple[Bar, ...]
    total: int
    height: float = HEIGHT_PX
    step: float = STEP_PX

    @property
    def width(self) -> float:
        """The width of the whole strip."""
        return self.step * len(self.bars)


def strip_of(counts: Sequence[DayCount], now_ns: int) -> Strip:
    """The strip of the 30 days up to today; counts of other days are left out."""
    today = now_ns // DAY_NS
    by_day = {count.day: count for count in counts}
    days = [by_day.get(day, DayCount(day, 0, 0)) for day in range(today - DAYS + 1, today + 1)]
    most = max(day.count for day in days)
    return Strip(tuple(_bar(day, place, most) for place, day in enumerate(days)), sum(day.count for day in days))


def date_of(day: int) -> str:
    """`2026-03-02` of a day since 1 Jan 1970."""
    return f"{datetime.fromtimestamp(day * 86_400, UTC):%Y-%m-%d}"


def _bar(day: DayCount, place: int, most: int) -> Bar:
    height = round(max(MIN_BAR_PX, HEIGHT_PX * day.count / most), 1) if day.count else 0.0
    title = f"{humanize.day(day.day * DAY_NS)}: {humanize.count(day.count, 'incident')}"
    title += f", {day.open} open" if day.open else ""
    open_height = round(height * day.open / day.count, 1) if day.open else 0.0
    return Bar(date_of(day.day), place * STEP_PX, height, open_height, day.count, title)
