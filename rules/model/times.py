"""Times and durations as people write them, to and from integer nanoseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from epicenter.rules.errors import InvariantError

NS_PER_S: Final = 1_000_000_000
EARLIEST_NS: Final = 946_684_800 * NS_PER_S
"""The year 2000. No event is older, so an earlier time only gives the order of the lines of a file."""

END_NS: Final = 1 << 62
"""After every time."""

_ORDER_NS: Final = EARLIEST_NS // 2

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)", re.ASCII)
_EARLIEST_ISO: Final = "2000"
UTC_ZONE: Final = "UTC"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_DURATION_NS = 2**62
"""As long as times since the epoch can add and still be stored: 146 years."""

UNIT_NS = {"ms": 1_000_000, "s": NS_PER_S, "m": 60 * NS_PER_S, "h": 3600 * NS_PER_S, "d": 86400 * NS_PER_S}


def iso_from_ns(time_ns: int) -> str:
    """ISO 8601 in UTC with nine digits: `2026-03-02T09:00:01.123456789Z`."""
    seconds, fraction_ns = divmod(time_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{fraction_ns:09d}Z"


def order_ns(line: int) -> int:
    """The place of a line in its file as a time before `EARLIEST_NS`, for a line without any time."""
    return _ORDER_NS + line


def is_known(time_ns: int) -> bool:
    """Whether it is a time, rather than only a place in an order."""
    return time_ns >= EARLIEST_NS


def known_iso(iso: str) -> str:
    """An ISO 8601 time, or an empty text if it is only a place in an order."""
    return iso if iso >= _EARLIEST_ISO else ""


def duration_ns(text: str) -> int:
    """Nanoseconds of `90s`, `35m`, `1.5h`, `250ms` or `2d`.

    Raises:
        ValueError: the text is not a duration.
    """
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a duration: write a number and a unit (ms, s, m, h or d), such as 35m")
    length_ns = float(found[1]) * UNIT_NS[found[2]]
    if length_ns > MAX_DURATION_NS:
        raise ValueError(f"{text[:20]!r} is too long: write at most {MAX_DURATION_NS // UNIT_NS['d']}d")
    return round(length_ns)


def iso_ns(text: str) -> int:
    """Nanoseconds since the epoch of an ISO 8601 time in UTC, to the last of up to nine digits.

    Raises:
        InvariantError: it is not such a time; our own core writes the times of incidents.
    """
    found = _ISO.fullmatch(text)
    if found is None:
        raise InvariantError(f"incident time {text!r}: not like 2026-03-02T09:00:01.123456789Z")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    try:
        whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC) - _EPOCH
    except ValueError as error:
        raise InvariantError(f"incident time {text!r}: {error}") from error
    return (whole.days * 86_400 + whole.seconds) * NS_PER_S + int((found[7] or "").ljust(9, "0"))
