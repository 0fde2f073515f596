"""Times for lines without a timestamp, or with one that can't be right: they get the time of a nearby line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec

from epicenter.ingest.parse.ages import age_s
from epicenter.ingest.parse.envelope import Parsed, is_envelope
from epicenter.ingest.parse.times import is_end_of_second, time_of_clock
from epicenter.rules.model.records import LogEvent
from epicenter.rules.model.times import END_NS, NS_PER_S, is_known, order_ns
from epicenter.stream.scan.batch_lines import BatchLines

MAX_LOOKBACK_LINES: Final = 200
"""A line gets the time of a line at most this far before it; in a stream, and in a recording that begins with times, of
any line."""

MAX_ZONES_NS: Final = 14 * 3600 * NS_PER_S
"""No time zone explains a larger difference between two lines of one writer."""

HOUR_NS: Final = 3600 * NS_PER_S
NEAR_NS: Final = 60 * NS_PER_S
"""Lines next to each other in a file are this near in time, or whole hours apart if their writers' zones differ."""

NEIGHBOURS: Final = 9
"""At most this many lines before and after a doubtful one are asked: several may be wrong together."""

MAX_NEIGHBOUR_LINES: Final = 60
"""Neighbours are looked for among this many lines before and after a line."""

MAX_DOUBTS: Final = 50
"""At most this many jumps in time of a batch are looked into: lines of many days in no order are what they are."""

LIVE_LAG_NS: Final = 600 * NS_PER_S
"""A live source whose lines are older than this when they arrive is catching up: their receipt is not their time."""


class Timed(NamedTuple):
    """A line that states its time."""

    offset: int
    time_ns: int
    received_ns: int


class Earlier(NamedTuple):
    """What is known of a source before a batch: its last timed line, the newest of those, and its last hit's time."""

    timed: Timed | None = None
    newest: Timed | None = None
    believed_ns: int = 0


class LineTimes:
    """Times for lines of a batch without a timestamp. Call it in order: it then looks back at each line once."""

    def __init__(self, lines: BatchLines, earlier: Earlier):
        self.lines, self.batch = lines, lines.batch
        self._earlier, self._timed = earlier, earlier.timed
        self._seen = 0
        self._believed_ns = earlier.believed_ns
        self._zone_doubts_left = MAX_DOUBTS
        self._doubts_left = MAX_DOUBTS
        self._next: tuple[int, Timed | None] = (-1, None)
        origin = self.batch.origin
        begins_with_times = self.batch.is_recording and origin is not None and origin.head_time_ns is not None
        self._looks_far_back = begins_with_times or not self.batch.is_recorded

    def with_time(self, parsed: Parsed, number: int) -> Parsed:
        """The line; without a believable time it gets that of the nearest timed line before it.

        At the head of a plain file it gets that of the first timed line. Without any, a line of a recording gets its
        place in the order of lines; another one keeps the time of its receipt. So does a live line, unless its source
        is catching up.
        """
        parsed = self._in_zone_of_file(parsed, number)
        if parsed.event.has_own_time and not self.is_wild(number, parsed.event.event_time_ns):
            return self._in_turn(parsed, number)
        time_ns = self._time_in_file(number) if self.batch.is_recorded else self._time_in_stream(number)
        if not parsed.event.has_own_time and (clock_ns := self._clock_ns(number, parsed.body, time_ns)):
            return msgspec.structs.replace(
                parsed, event=msgspec.structs.replace(parsed.event, event_time_ns=clock_ns, has_own_time=True)
            )
        return msgspec.structs.replace(parsed, event=self._at(parsed.event, time_ns))

    def _at(self, event: LogEvent, time_ns: int) -> LogEvent:
        if event.has_own_time:
            return msgspec.structs.replace(
                event, event_time_ns=time_ns, has_own_time=False, wild_ns=event.event_time_ns
            )
        is_moved = time_ns != event.event_time_ns and not self.batch.is_recorded
        received_ns = event.event_time_ns if is_moved else 0
        return msgspec.structs.replace(event, event_time_ns=time_ns, received_ns=received_ns)

    def alone(self, number: int, parsed: Parsed) -> Parsed:
        """As `with_time`, in any order."""
        parsed = self._in_zone_of_file(parsed, number)
        if parsed.event.has_own_time and not self.is_wild(number, parsed.event.event_time_ns):
            return parsed
        return self.anew().with_time(parsed, number)

    def anew(self) -> LineTimes:
        """The same for another pass over the lines."""
        return LineTimes(self.lines, self._earlier)

    def _in_turn(self, parsed: Parsed, number: int) -> Parsed:
        """The line; one of a file that counts as the end of its second is no later than the next exact time there."""
        time_ns = parsed.event.event_time_ns
        if not (is_end_of_second(time_ns) and self.batch.is_recorded):
            return parsed
        later = filter(None, map(self._timed_line, range(number + 1, self._end_of_search(number))))
        after_ns = next((timed.time_ns for timed in later if not is_end_of_second(timed.time_ns)), time_ns)
        is_of_its_second = after_ns // NS_PER_S == time_ns // NS_PER_S
        event = msgspec.structs.replace(parsed.event, event_time_ns=after_ns if is_of_its_second else time_ns)
        return msgspec.structs.replace(parsed, event=event)

    def earlier_than(self, end: int, believed_ns: int) -> Earlier:
        """What is known of the source for the lines from `end` on; the time is 0 if no hit states one."""
        timed = (self if end >= self._seen else self.anew())._before(end)
        newest = self._newest_before(end, timed) if timed and not self.batch.is_recorded else None
        return Earlier(timed, newest, believed_ns or self._earlier.believed_ns)

    def latest_ns(self, number: int, event: LogEvent) -> int:
        """When an untimed line of a recording was written at the latest: at the next timed line's time.

        At the end of the file that is any time; 0 if the line states its time, or if too many untimed lines follow.
        """
        if event.has_own_time or not self.batch.is_recording:
            return 0
        if after := self._after(number):
            return after.time_ns
        return END_NS if not is_known(event.event_time_ns) or self._end_of_search(number) == len(self.batch) else 0

    def next_ns(self, number: int, event: LogEvent) -> int:
        """The time of the next timed line, however far, after an untimed line of a recording; 0 if there is none."""
        if event.has_own_time or not self.batch.is_recorded:
            return 0
        if self._next[0] <= number:
            later = islice(self.lines.may_be_timed, bisect_right(self.lines.may_be_timed, number), None)
            timed_lines = ((other, timed) for other in later if (timed := self._timed_line(other)))
            self._next = next(timed_lines, (len(self.batch), None))
        timed = self._next[1]
        return timed.time_ns if timed else 0

    def is_wild(self, number: int, time_ns: int) -> bool:
        """Whether no zone explains how far its time is from those of its writer's lines before and after it.

        A line of a stream is compared with its own receipt: old lines may come late, but none comes before its time.
        """
        if self._is_wild(number, time_ns):
            return True
        self._believed_ns = time_ns
        return False

    def _is_wild(self, number: int, time_ns: int) -> bool:
        if not self.batch.is_recorded:
            return time_ns - self.batch.received_ns[number] > MAX_ZONES_NS
        if abs(self._believed_ns - time_ns) <= MAX_ZONES_NS or not self._doubts_left:
            return False
        self._doubts_left -= 1
        return self._is_contradicted(number, time_ns)

    def _is_contradicted(self, number: int, time_ns: int) -> bool:
        end = min(len(self.batch), number + MAX_NEIGHBOUR_LINES)
        after_ns = self._median_of_writer(number, range(number + 1, end))
        if after_ns is None or abs(after_ns - time_ns) <= MAX_ZONES_NS:
            return False
        before_ns = self._just_before(number)
        if before_ns is None:
            return after_ns < time_ns
        return abs(before_ns - time_ns) > MAX_ZONES_NS and (before_ns < time_ns) == (after_ns < time_ns)

    def _just_before(self, number: int) -> int | None:
        first, timed = max(-1, number - MAX_NEIGHBOUR_LINES), self._earlier.timed
        before_ns = self._median_of_writer(number, range(number - 1, first, -1))
        return timed.time_ns if before_ns is None and timed else before_ns

    def _in_zone_of_file(self, parsed: Parsed, number: int) -> Parsed:
        if not parsed.event.has_own_time:
            return parsed
        time_ns = self._time_in_zone_of_file(number, parsed.event.event_time_ns)
        if time_ns == parsed.event.event_time_ns:
            return parsed
        return msgspec.structs.replace(parsed, event=msgspec.structs.replace(parsed.event, event_time_ns=time_ns))

    def _time_in_zone_of_file(self, number: int, time_ns: int) -> int:
        """The time, without the whole hours by which it differs from those of two other writers before and after."""
        hours = _hours_ahead(time_ns, self._believed_ns) if self.batch.is_recorded and self._zone_doubts_left else 0
        if not hours or is_envelope(self.batch.values[number]):
            return time_ns
        self._zone_doubts_left -= 1
        first, end = max(-1, number - MAX_NEIGHBOUR_LINES), min(len(self.batch), number + MAX_NEIGHBOUR_LINES)
        before, after = (
            self._nearest_of_another(number, numbers)
            for numbers in (range(number - 1, first, -1), range(number + 1, end))
        )
        if before is None or after is None or self._writer(before) == self._writer(after):
            return time_ns
        agree = all(_hours_ahead(time_ns, self.lines.stated_ns(other) or 0) == hours for other in (before, after))
        return time_ns - hours * HOUR_NS if agree else time_ns

    def _nearest_of_another(self, number: int, numbers: Iterable[int]) -> int | None:
        """The nearest line with a time by another writer, among these."""
        writer = self._writer(number)
        return next((other for other in numbers if self.lines.stated_ns(other) and self._writer(other) != writer), None)

    def _time_in_file(self, number: int) -> int:
        offset = self.batch.offsets[number]
        timed = self._before(number) or self._at_head(number)
        if timed and (self._looks_far_back or timed.offset > offset - MAX_LOOKBACK_LINES):
            return timed.time_ns
        if not self.batch.is_recording:
            return self.batch.record(number).received_ns
        return order_ns(offset if self._age_s(number) is None else self._offset_by_age[number])

    def _age_s(self, number: int) -> int | None:
        value = self.batch.values[number]
        return None if is_envelope(value) else age_s(value.decode("utf-8", "replace"))

    @cached_property
    def _offset_by_age(self) -> dict[int, int]:
        """The place in the order of lines for each line of a listing that states an age: the oldest comes first."""
        aged = [(number, age) for number in range(len(self.batch)) if (age := self._age_s(number)) is not None]
        oldest_first = sorted(aged, key=lambda line: -line[1])
        return {old: self.batch.offsets[number] for (old, _), (number, _) in zip(oldest_first, aged, strict=True)}

    def _clock_ns(self, number: int, body: str, near_ns: int) -> int | None:
        """The time of a recorded line that begins with a clock alone; later clocks are compared with this one."""
        record = self.batch.record(number) if self.batch.is_recorded and ":" in body[:9] else None
        time_ns = time_of_clock(body, near_ns, record.zone) if record else None
        if record and time_ns is not None and number >= self._seen:
            self._seen, self._timed = number, Timed(self.batch.offsets[number], time_ns, record.received_ns)
        return time_ns

    def _time_in_stream(self, number: int) -> int:
        received_ns = self.batch.record(number).received_ns
        timed = self._before(number)
        if timed is None or _is_live(newest := self._newest_before(number, timed)):
            return received_ns
        is_old = newest.time_ns - timed.time_ns > MAX_ZONES_NS
        time_ns, read_ns = (newest if is_old else timed)[1:]
        return time_ns + max(0, received_ns - read_ns)

    def _newest_before(self, number: int, timed: Timed) -> Timed:
        """The line with the latest time: of this one, of those a little before `number`, and of earlier batches."""
        near = () if _is_live(timed) else range(max(0, number - NEIGHBOURS), number)
        others = filter(None, (self._earlier.newest, *map(self._timed_line, near)))
        return max((timed, *others), key=_time)

    def _at_head(self, number: int) -> Timed | None:
        """The time of a plain file's first timed line, for the untimed lines before it."""
        origin, offset = self.batch.origin, self.batch.offsets[number]
        time_ns = origin.head_time_ns if origin else None
        return None if time_ns is None or offset > MAX_LOOKBACK_LINES else Timed(offset, time_ns, time_ns)

    def _before(self, number: int) -> Timed | None:
        near = max(self._seen, number - MAX_LOOKBACK_LINES + 1)
        far = self._far_before(near) if self._looks_far_back else ()
        for earlier in chain(range(number - 1, near - 1, -1), far):
            if timed := self._timed_line(earlier):
                self._timed = timed
                break
        self._seen = max(self._seen, number)
        return self._timed

    def _after(self, number: int) -> Timed | None:
        return next(filter(None, map(self._timed_line, range(number + 1, self._end_of_search(number)))), None)

    def _timed_line(self, number: int) -> Timed | None:
        """The line with its time, if it states one that can be right."""
        stated_ns = self.lines.stated_ns(number)
        if stated_ns is None or self._is_wild(number, time_ns := self._time_in_zone_of_file(number, stated_ns)):
            return None
        return Timed(self.batch.offsets[number], time_ns, self.batch.record(number).received_ns)

    def _end_of_search(self, number: int) -> int:
        return min(len(self.batch), number + MAX_LOOKBACK_LINES)

    def _median_of_writer(self, number: int, numbers: Iterable[int]) -> int | None:
        """The median time of the nearest lines of the same writer, among these."""
        writer = self._writer(number)
        times = (self.lines.stated_ns(other) for other in numbers if self._writer(other) == writer)
        nearest = sorted(islice((time_ns for time_ns in times if time_ns is not None), NEIGHBOURS))
        return nearest[len(nearest) // 2] if nearest else None

    def _writer(self, number: int) -> tuple[str, str]:
        line = self.lines.at(number)
        return (line.event.node, line.event.source) if line else ("", "")

    def _far_before(self, number: int) -> Iterator[int]:
        """The lines before this one that were not looked at yet and may state a time, the newest first."""
        while self._seen < number and (place := bisect_left(self.lines.may_be_timed, number)):
            number = self.lines.may_be_timed[place - 1]
            if number >= self._seen:
                yield number


def _is_live(timed: Timed) -> bool:
    return timed.received_ns - timed.time_ns <= LIVE_LAG_NS


def _time(timed: Timed) -> int:
    return timed.time_ns


def _hours_ahead(time_ns: int, other_ns: int) -> int:
    """How many whole hours lie between two times of one moment in different zones; 0 if they are not such."""
    apart_ns = time_ns - other_ns
    hours = round(apart_ns / HOUR_NS)
    return hours if abs(apart_ns - hours * HOUR_NS) <= NEAR_NS and abs(apart_ns) <= MAX_ZONES_NS else 0
