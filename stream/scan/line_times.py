"""Times for lines without a timestamp in recorded files: they get the time of a nearby line, else only an order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Final

import msgspec

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.text import TextLines
from epicenter.ingest.parse.envelope import Parsed, may_state_time, stated_time
from epicenter.rules.model.times import order_ns

MAX_LOOKBACK_LINES: Final = 200
"""A line gets the time of a line at most this far before it; in a recording that begins with times, of any line."""


class LineTimes:
    """Times for lines of a recorded batch without a timestamp. Call it in order: each line is then read once."""

    def __init__(self, batch: Batch, timed: tuple[int, int] | None):
        self.batch = batch
        self._at_start = self._timed = timed
        self._seen = 0
        self._looks_far_back = batch.is_recording and batch.origin is not None and batch.origin.head_time_ns is not None

    def with_time(self, parsed: Parsed, number: int) -> Parsed:
        """A recorded line with the time of the nearest timed line before it, unless that is too far back.

        At the head of a plain file it gets that of the first timed line. Without any, a line of a recording gets its
        place in the order of lines; another one keeps the time of its receipt.
        """
        if parsed.event.has_own_time or not self.batch.is_recorded:
            return parsed
        offset = self.batch.offsets[number]
        timed = self._before(number) or self._at_head(number)
        if timed and (self._looks_far_back or timed[0] > offset - MAX_LOOKBACK_LINES):
            time_ns = timed[1]
        elif self.batch.is_recording:
            time_ns = order_ns(offset)
        else:
            return parsed
        return msgspec.structs.replace(parsed, event=msgspec.structs.replace(parsed.event, event_time_ns=time_ns))

    def upto(self, end: int) -> tuple[int, int] | None:
        """(line, time) of the newest timed line before `end`, including earlier batches."""
        return self._before(end) if end >= self._seen else LineTimes(self.batch, self._at_start)._before(end)

    def _at_head(self, number: int) -> tuple[int, int] | None:
        """The time of a plain file's first timed line, for the untimed lines before it."""
        origin, offset = self.batch.origin, self.batch.offsets[number]
        time_ns = origin.head_time_ns if origin else None
        return None if time_ns is None or offset > MAX_LOOKBACK_LINES else (offset, time_ns)

    def _before(self, number: int) -> tuple[int, int] | None:
        near = max(self._seen, number - MAX_LOOKBACK_LINES + 1)
        far = self._far_before(near) if self._looks_far_back else ()
        for earlier in chain(range(number - 1, near - 1, -1), far):
            if (time_ns := stated_time(self.batch.record(earlier))) is not None:
                self._timed = self.batch.offsets[earlier], time_ns
                break
        self._seen = max(self._seen, number)
        return self._timed

    def _far_before(self, number: int) -> Iterator[int]:
        """The lines before this one that were not looked at yet and may state a time, the newest first."""
        while self._seen < number and (place := bisect_left(self._may_be_timed, number)):
            number = self._may_be_timed[place - 1]
            if number >= self._seen:
                yield number

    @cached_property
    def _may_be_timed(self) -> list[int]:
        values = self.batch.values
        lines = values.cut_up() if isinstance(values, TextLines) else values
        return [number for number, line in enumerate(lines) if may_state_time(line)]
