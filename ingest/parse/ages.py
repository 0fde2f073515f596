"""How long ago an Event of Kubernetes happened, as `kubectl describe` and `kubectl get events` print it."""

from __future__ import annotations

import re
from typing import Final

_AGE: Final = r"(?=\d)(?:\d{1,4}y)?(?:\d{1,5}d)?(?:\d{1,5}h)?(?:\d{1,5}m)?(?:\d{1,6}s)?"
_AGES: Final = rf"(?P<last>{_AGE})(?: \(x\d{{1,9}} over (?P<first>{_AGE})\))?"
_DESCRIBED: Final = re.compile(rf"\s{{0,8}}(?P<type>Warning|Normal) +\w{{2,80}} +{_AGES} ", re.ASCII)
_LISTED: Final = re.compile(rf"(?:[a-z0-9][a-z0-9-]{{0,62}} +)?{_AGES} +(?P<type>Warning|Normal) +\w", re.ASCII)
_PART: Final = re.compile(r"(\d+)([ydhms])", re.ASCII)
_SECONDS: Final = {"y": 365 * 86_400, "d": 86_400, "h": 3600, "m": 60, "s": 1}


def age_s(line: str) -> int | None:
    """How many seconds ago the line's Event happened; a repeated warning when it first did. None for other lines."""
    found = _DESCRIBED.match(line) or _LISTED.match(line)
    if not found:
        return None
    first = found["first"] if found["type"] == "Warning" else None
    return sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(first or found["last"]))
