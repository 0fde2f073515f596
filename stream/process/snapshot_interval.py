"""How long to wait between two snapshots of a state."""

from __future__ import annotations

from typing import Final

SMALL_SHARE: Final = 10
"""Snapshots take at most a tenth of the time."""

IDLE_TIMES: Final = 12
"""The interval is this many times longer while only time has advanced since the last snapshot."""


def snapshot_interval_s(every_s: float, took_s: float, has_changes: bool) -> float:
    """The time from the last snapshot, which took so long, to the next."""
    return max(every_s, SMALL_SHARE * took_s) * (1 if has_changes else IDLE_TIMES)
