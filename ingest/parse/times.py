"""Event times in envelopes and at the head of lines -> nanoseconds.

A time that names no zone is one of the `zone` given by its IANA name or its distance from UTC (`UTC-07:00`); in the
hour that a clock repeats when summer time ends, it is the earlier one.

Header formats: dmesg, syslog (RFC 3164, 5424), journalctl, absl/glog/klog, c10 (PyTorch's C++ logger), Python logging
in its usual forms, NCCL since 2.26, Ray, vLLM, NeMo, torchtitan, UCX, OpenMMLab, detectron2, Paddle,
Optuna, slurmstepd's end of a job, date(1).
"""

from __future__ import annotations

import re
from calendar import month_abbr, timegm
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from epicenter.rules.model.times import EARLIEST_NS, NS_PER_S, UTC_ZONE

DAY_NS: Final = 86_400 * NS_PER_S
LATEST_NS: Final = timegm((9998, 1, 1, 0, 0, 0)) * NS_PER_S

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?\s?(Z|UTC|[+-]\d\d:?\d\d)?", re.ASCII
)
_HEAD_ISO = re.compile(
    r"(?:<\d{1,3}>(?:1 )?| {1,8}|[A-Z][a-z]{2} |(?:time|ts|t)=\"?|\[\w{1,20}\] |\[NeMo [A-Z] "
    r"|\{\"@?(?:timestamp|asctime|time|ts)\": ?\""
    r"|\[[A-Z]{4,8}\|[\w.]{1,80}:\d{1,6}\] "
    r"|\[[IWEDC] |\[?[A-Z]{4,8}\]?:? {1,4})?[\[(]?(?=\d{4}-\d\d-\d\d[T _]\d\d:\d\d)",
    re.ASCII,
)
_SYSLOG = re.compile(
    r"(?:<\d{1,3}>)?\[?(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)"
    r"(?:\.(\d{1,9})| (20\d\d)(?=[\]\[ ]))?",
    re.ASCII,
)
_OF_DATE = re.compile(
    r"(?:[^\n]{0,60}?\b(?:[Ss]tart|[Bb]eg[ai]n|[Ll]aunch|[Ff]inish|[Ee]nd|[Cc]omplet|[Dd]one|[Ee]xit|[Dd]ate|[Tt]ime)\w{0,4}"
    r"(?: (?:at|on|time))?[ :=]{1,3})?[A-Z][a-z]{2} ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d) "
    r"([A-Z]{3,5}|[+-]\d\d) (20\d\d)\b",
    re.ASCII,
)
"""What `date` prints in the C locale, alone or after a script's words."""

_AMERICAN = re.compile(r"\[?(\d\d)/(\d\d)/(20\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?", re.ASCII)
_SLASHED = re.compile(r"\[?(20\d\d)/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?=[\] ])", re.ASCII)
_MONTH_AND_DAY = re.compile(r"\[?(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:\]| (?![AP]M))", re.ASCII)
_VLLM = re.compile(r"(?:(?:[A-Z]{4,8}|[IWEDCF]) )?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))? ", re.ASCII)
_SINCE_1970 = re.compile(r"\[?(1\d{9})\.(\d{3}|\d{6}|\d{9})\]? ", re.ASCII)
_ABSL = re.compile(r"[IWEFDV](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) ", re.ASCII)
_ABSL_EARLY = re.compile(r"[IWEF]0000 00:00:(\d{10})\.(\d{6}) ", re.ASCII)
_GLOG = re.compile(r"[IWEF](20\d\d)(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{3,6}) ", re.ASCII)
"""absl's header with a year, as glog prints it since 0.5; loops that imitate it print milliseconds."""

_COMPACT = re.compile(
    r"[\[(]?[IWEFD]?(20\d\d)([01]\d)([0-3]\d)T([0-2]\d)([0-5]\d)([0-6]\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?[\]):]? ",
    re.ASCII,
)
"""ISO 8601 without separators."""

_C10 = re.compile(r"\[[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{9}) ", re.ASCII)
_CANCELLED = re.compile(
    r"(?:slurmstepd: )?error: \*{3} (?:JOB|STEP) \S{1,40} ON \S{1,80} CANCELLED AT (?=\d{4}-)", re.ASCII
)
"""slurmstepd leaves fractions of a second out. It ends a job after what it ends it for, so it does so at their end."""

_CLOCK = re.compile(r"\d:\d\d:\d\d", re.ASCII)
_CLOCK_ALONE = re.compile(r"\[?([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:[.,](\d{1,9}))?\]?(?=[ |-])", re.ASCII)
MAX_BACK_NS: Final = 300 * NS_PER_S
MAX_AHEAD_NS: Final = 3 * 3600 * NS_PER_S
"""A clock without a date may be this far behind or ahead of the line before it."""

_FARTHEST_CLOCK = 120
_QUARTER_NS = 900 * NS_PER_S
_MONTHS = {name: number for number, name in enumerate(month_abbr) if name}


def plausible(time_ns: int | None, received_ns: int) -> bool:
    """Whether an event can have happened then: since the year 2000, and no later than a day after it was received."""
    return time_ns is not None and EARLIEST_NS <= time_ns <= received_ns + DAY_NS


def is_end_of_second(time_ns: int) -> bool:
    """Whether it is the time of a line that leaves fractions of a second out and counts as the end of its second."""
    return time_ns % NS_PER_S == NS_PER_S - 1


def time_from_field(value: Any, zone: str = UTC_ZONE) -> int | None:
    """A time from an envelope: ISO 8601 text, or a number of s, ms, us or ns since 1970 (its size tells which)."""
    if isinstance(value, str):
        found = _ISO.match(value)
        if found:
            return _iso_ns(found, zone)
        return _epoch_ns(value) if re.fullmatch(r"\d{1,20}(?:\.\d{1,12})?", value, re.ASCII) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value < 1e20:
        return _epoch_ns(repr(value) if isinstance(value, float) and value < 1e15 else str(int(value)))
    return None


def time_at_head(line: str, received_ns: int, zone: str = UTC_ZONE, is_day_first: bool = False) -> int | None:
    """The time that the line begins with. A header without a year gets the newest year that its receipt allows.

    In `02/03/2026` the month comes first, unless `is_day_first` or it is none.
    """
    if found := _ABSL_EARLY.match(line) or _SINCE_1970.match(line):
        return int(found[1]) * NS_PER_S + _fraction_ns(found[2])
    if found := _COMPACT.match(line):
        return _iso_ns(found, zone)
    if not _CLOCK.search(line, 0, _FARTHEST_CLOCK):
        return None
    if head := _HEAD_ISO.match(line):
        found = _ISO.match(line, head.end())
        return _iso_ns(found, zone) if found else None
    if head := _CANCELLED.match(line):
        found = _ISO.match(line, head.end())
        time_ns = _iso_ns(found, zone) if found else None
        return time_ns and time_ns + NS_PER_S - 1
    if found := _ABSL.match(line) or _C10.match(line) or _VLLM.match(line):
        return _without_year(_numbers(found, 1, 2, 3, 4, 5), found[6], received_ns, zone)
    if found := _AMERICAN.match(line):
        groups = (2, 1, 4, 5, 6) if is_day_first or int(found[1]) > 12 else (1, 2, 4, 5, 6)
        return _in_utc(_clock_ns(int(found[3]), _numbers(found, *groups), _fraction_ns(found[7])), zone)
    if found := _SLASHED.match(line) or _GLOG.match(line):
        return _in_utc(_clock_ns(int(found[1]), _numbers(found, 2, 3, 4, 5, 6), _fraction_ns(found[7])), zone)
    if found := _MONTH_AND_DAY.match(line):
        return _without_year(_numbers(found, 1, 2, 3, 4, 5), found[6], received_ns, zone)
    if found := _OF_DATE.match(line):
        return _date_ns(found, zone)
    found = _SYSLOG.match(line)
    return _syslog_ns(found, received_ns, zone) if found else None


def time_of_clock(line: str, near_ns: int, zone: str = UTC_ZONE) -> int | None:
    """The time of a line that begins with a clock without a date, by the line before it, which was at `near_ns`.

    None if the line has no clock, or if it shows another time than the hours after that: clocks of two zones.
    """
    found = _CLOCK_ALONE.match(line)
    if found is None or near_ns < EARLIEST_NS:
        return None
    hour, minute, second = _numbers(found, 1, 2, 3)
    of_day_ns = (hour * 3600 + minute * 60 + second) * NS_PER_S + _fraction_ns(found[4])
    midnight_ns = near_ns // DAY_NS * DAY_NS
    for day in (-1, 0, 1):
        time_ns = _in_utc(midnight_ns + day * DAY_NS + of_day_ns, zone)
        if time_ns is not None and -MAX_BACK_NS <= time_ns - near_ns <= MAX_AHEAD_NS:
            return time_ns
    return None


def _syslog_ns(found: re.Match[str], received_ns: int, zone: str) -> int | None:
    month = _MONTHS.get(found[1])
    if month is None:
        return None
    when = (month, *_numbers(found, 2, 3, 4, 5))
    if found[7]:
        return _in_utc(_clock_ns(int(found[7]), when), zone)
    return _without_year(when, found[6], received_ns, zone)


def _date_ns(found: re.Match[str], zone: str) -> int | None:
    month = _MONTHS.get(found[1])
    clock_ns = _clock_ns(int(found[7]), (month, *_numbers(found, 2, 3, 4, 5))) if month else None
    return clock_ns if found[6] in ("UTC", "GMT") else _in_utc(clock_ns, zone)


def _numbers(found: re.Match[str], *groups: int) -> tuple[int, ...]:
    return tuple(int(found[group]) for group in groups)


def _epoch_ns(number: str) -> int:
    whole, _, fraction = number.partition(".")
    scale_ns = NS_PER_S
    while scale_ns > 1 and int(whole) * scale_ns >= 10**19:
        scale_ns //= 1000
    return int(whole) * scale_ns + (_fraction_ns(fraction) if scale_ns == NS_PER_S else 0)


def _fraction_ns(digits: str | None) -> int:
    return int((digits or "0")[:9].ljust(9, "0"))


def _iso_ns(found: re.Match[str], zone: str) -> int | None:
    clock_ns = _clock_ns(int(found[1]), _numbers(found, 2, 3, 4, 5, 6), _fraction_ns(found[7]))
    offset = found[8]
    if offset is None:
        return _in_utc(clock_ns, zone)
    if clock_ns is None or offset in ("Z", "UTC"):
        return clock_ns
    sign = -1 if offset[0] == "-" else 1
    return clock_ns - sign * (int(offset[1:3]) * 3600 + int(offset[-2:]) * 60) * NS_PER_S


def shown_in(clock_ns: int, zone: str) -> int:
    """The time when a clock of the zone shows what one in UTC shows at `clock_ns`."""
    return clock_ns if zone == UTC_ZONE else clock_ns - _offset_s(clock_ns // _QUARTER_NS, zone) * NS_PER_S


def _in_utc(clock_ns: int | None, zone: str) -> int | None:
    return None if clock_ns is None else shown_in(clock_ns, zone)


@lru_cache
def _offset_s(quarter: int, zone: str) -> int:
    """How far a zone's clock is ahead of UTC in a quarter of an hour of that clock; all changes are between two."""
    shown = datetime.fromtimestamp(quarter * (_QUARTER_NS // NS_PER_S), UTC)
    offset = shown.replace(tzinfo=_tzinfo(zone)).utcoffset()
    return int(offset.total_seconds()) if offset else 0


def _tzinfo(zone: str) -> tzinfo | None:
    is_distance = zone.startswith(("UTC+", "UTC-"))
    return datetime.strptime(zone, "UTC%z").tzinfo if is_distance else ZoneInfo(zone)


def _clock_ns(year: int, when: tuple[int, ...], fraction_ns: int = 0) -> int | None:
    month, day, hour, minute, second = when
    midnight_ns = _midnight_ns(year, month, day)
    if midnight_ns is None or hour > 23 or minute > 59:
        return None
    return midnight_ns + (hour * 3600 + minute * 60 + min(second, 59)) * NS_PER_S + fraction_ns


@lru_cache
def _midnight_ns(year: int, month: int, day: int) -> int | None:
    try:
        return timegm(date(year, month, day).timetuple()) * NS_PER_S
    except ValueError:
        return None


def _without_year(when: tuple[int, ...], fraction: str | None, received_ns: int, zone: str) -> int | None:
    if not 0 <= received_ns <= LATEST_NS:
        return None
    year = _year(received_ns // DAY_NS)
    fraction_ns = _fraction_ns(fraction)
    times = (_in_utc(_clock_ns(candidate, when, fraction_ns), zone) for candidate in (year + 1, year, year - 1))
    return next((time for time in times if time is not None and time <= received_ns + DAY_NS), None)


@lru_cache
def _year(day_since_1970: int) -> int:
    return date.fromordinal(date(1970, 1, 1).toordinal() + day_since_1970).year
