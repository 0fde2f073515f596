"""Times and durations as people write them, to and from integer nanoseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from rules.model import NS_PER_S

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
UNIT_NS = {"ms": 1_000_000, "s": NS_PER_S, "m": 60 * NS_PER_S, "h": 3600 * NS_PER_S, "d": 86400 * NS_PER_S}


def iso_from_ns(time_ns: int) -> str:
    """ISO 8601 in UTC with nine digits: `2026-03-02T09:00:01.123456789Z`."""
    seconds, fraction_ns = divmod(time_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{fraction_ns:09d}Z"


def duration_ns(text: str) -> int:
    """Nanoseconds of `90s`, `35m`, `1.5h`, `250ms` or `2d`.

    Raises:
        ValueError: the text is no such duration.
    """
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is no duration: write a number and ms, s, m, h or d, such as 35m")
    return round(float(found[1]) * UNIT_NS[found[2]])
