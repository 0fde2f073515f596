"""Names of time zones, as the IANA database has them."""

from __future__ import annotations

from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones


def zone_fault(name: str) -> str:
    """Why this is no name of a time zone, and what to write instead; empty if it is one."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        near = get_close_matches(name, sorted(available_timezones()), n=1)
        return f"{name} is not a time zone: write {near[0] if near else 'UTC or Europe/Berlin'}"
    return ""
