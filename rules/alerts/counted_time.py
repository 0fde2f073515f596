"""Counted time, in which notifications wait: it elapses, and continues after a restart, whatever clocks are set to."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from epicenter.rules.model.times import duration_ns

MAX_UNSEEN_NS: Final = duration_ns("1h")
"""After a reboot, or on another host, at most this much of the difference of the wall clocks counts."""


class Instant(NamedTuple):
    """Now, in both times: the wall clock's, by which people's dates hold, and the counted one, by which waits end."""

    wall_ns: int
    counted_ns: int


class ClockReading(msgspec.Struct, frozen=True):
    """A machine's clocks, read at once; `elapsed_ns` elapses evenly within its `boot`, across processes."""

    wall_ns: int
    elapsed_ns: int = 0
    boot: str = ""

    def since_ns(self, earlier: ClockReading) -> int:
        """The time since an earlier reading: exact within a boot, else the wall clocks' difference within bounds."""
        if self.boot == earlier.boot:
            return self.elapsed_ns - earlier.elapsed_ns
        return min(max(0, self.wall_ns - earlier.wall_ns), MAX_UNSEEN_NS)


class CountedMark(msgspec.Struct, frozen=True):
    """A moment in counted time with its reading: a process stores it, and the next one continues from there."""

    counted_ns: int
    reading: ClockReading

    @classmethod
    def of_date(cls, wall_ns: int) -> CountedMark:
        """The mark of a date: counted time begins as the date, so that older journals, which hold dates, continue."""
        return cls(wall_ns, ClockReading(wall_ns))

    def at(self, reading: ClockReading) -> CountedMark:
        """The mark of a later reading."""
        return CountedMark(self.counted_ns + reading.since_ns(self.reading), reading)
