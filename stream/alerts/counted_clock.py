"""The clock of notifications: the wall's time, and counted time that continues from where the last process ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import Final
from uuid import uuid4

from epicenter.rules.alerts.counted_time import ClockReading, CountedMark, Instant

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def machine_clocks() -> Callable[[], ClockReading]:
    """Reads the clocks of this machine. Where it has no id of its boot, only readings of this process compare."""
    boot = _boot_id() or str(uuid4())
    return lambda: ClockReading(time_ns(), monotonic_ns(), boot)


class CountedClock:
    """Counts the time that elapses."""

    def __init__(self, read: Callable[[], ClockReading]):
        self._read = read
        reading = read()
        self._began = CountedMark(reading.wall_ns, reading)

    def resume(self, mark: CountedMark) -> None:
        """Continue from the mark of the last process."""
        self._began = mark.at(self._read())

    def mark(self) -> CountedMark:
        """Now, to store it."""
        return self._began.at(self._read())

    def now(self) -> Instant:
        """Now, in both times."""
        mark = self.mark()
        return Instant(mark.reading.wall_ns, mark.counted_ns)

    def counted_ns(self) -> int:
        """Now, in counted time."""
        return self.mark().counted_ns


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
