"""When a maintenance window is active, and until when."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from epicenter.rules.alerts.spec import MaintenanceSpec, WeeklySpec
from epicenter.rules.model.time_zones import zone_fault
from epicenter.rules.model.times import NS_PER_S

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_ONE_DAY: Final = timedelta(days=1)


def ends(window: MaintenanceSpec, now_ns: int) -> datetime | None:
    """When the window ends, if it is active now, else None. `begins` is inclusive, `until` exclusive."""
    at = datetime.fromtimestamp(now_ns // NS_PER_S, UTC)
    if window.weekly:
        return _weekly_end(window.weekly, at)
    begins, until = zoned(window.begins), zoned(window.until)
    return until if until and at < until and (begins is None or begins <= at) else None


def clock(text: str) -> time:
    """The time of day of `HH:MM`; `24:00` is midnight, as `00:00`.

    Raises:
        ValueError: the text is no such time.
    """
    found = _CLOCK.fullmatch("00:00" if text == "24:00" else text)
    if not found:
        raise ValueError(f"{text!r} is not a time of day: write it as 08:30")
    return time(int(found[1]), int(found[2]))


def zoned(time_: datetime | None) -> datetime | None:
    """A time without a zone is UTC, as in YAML."""
    return time_.replace(tzinfo=UTC) if time_ and not time_.tzinfo else time_


def faults(window: MaintenanceSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is wrong with a window's times, each with its keys."""
    if window.weekly:
        if window.begins or window.until:
            yield ("weekly",), "a weekly window has no `begins` or `until`: write two windows"
        yield from ((("weekly", key), fault) for key, fault in _weekly_faults(window.weekly))
        return
    begins, until = zoned(window.begins), zoned(window.until)
    if until is None:
        yield (), "it never ends: write `until`, or `weekly` with days, start and end"
    elif begins and until <= begins:
        yield ("until",), "it ends before it begins: write a time after `begins`"


def _weekly_faults(weekly: WeeklySpec) -> Iterator[tuple[str, str]]:
    if not weekly.days:
        yield "days", f"there are no days: write some of {', '.join(DAYS)}"
    for day in weekly.days:
        if day not in DAYS:
            yield "days", f"{day} is not a day: write some of {', '.join(DAYS)}"
    for key, text in (("start", weekly.start), ("end", weekly.end)):
        try:
            clock(text)
        except ValueError as error:
            yield key, str(error)
    if weekly.start == weekly.end:
        yield "end", "it is the same as `start`: write 00:00 and 24:00 for a whole day"
    if fault := zone_fault(weekly.timezone):
        yield "timezone", fault


def _weekly_end(weekly: WeeklySpec, at: datetime) -> datetime | None:
    """The end of the hours that include `at`; the previous day's hours may reach past midnight."""
    day = at.astimezone(ZoneInfo(weekly.timezone)).date()
    for first in (day, day - _ONE_DAY):
        begins, until = _hours(weekly, first)
        if DAYS[first.weekday()] in weekly.days and begins <= at < until:
            return until.astimezone(ZoneInfo(weekly.timezone))
    return None


def _hours(weekly: WeeklySpec, first: date) -> tuple[datetime, datetime]:
    """The hours that begin on this day, in UTC; an end that is not after the start is on the next day."""
    zone, start, end = ZoneInfo(weekly.timezone), clock(weekly.start), clock(weekly.end)
    last = first if start < end else first + _ONE_DAY
    return datetime.combine(first, start, zone).astimezone(UTC), datetime.combine(last, end, zone).astimezone(UTC)
