"""Which records of a batch tell who was alive: few, and the same buckets of time however batches are cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ingest.batch import Batch
from ingest.text import Repeated, TextLines
from rules.match.hyperscan import HyperscanScanner
from rules.silence.streams import BUCKET_NS
from rules.times import iso_from_ns

MOST_SPEAKERS: Final = 200_000
"""So many speakers of one source are remembered; with more, all are forgotten and looked at again."""

_KERNEL = (" kernel: ", '"kernel"', '"kmsg"', '"source":"kern', '"syslog"')
"""What the host itself says: its kernel and its services."""

_NODE_MARKS = (b'"pod_node_name":"', b'"host":"', b'"hostname":"', b'"node":"', b'"_HOSTNAME":"', b'"node_name":"')
_NODE_BYTES = 48
_CLOCKS = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d|\b1[5-9]\d{7}(?=\d)")
"""ISO 8601 up to the tens of seconds, or as much of an epoch time: the same text means the same bucket."""

FEW_SPEAKERS: Final = 16
MOST_UNTIMED: Final = 200
"""So many records without a time are passed over in search of one that has it."""

TimeOf = Callable[[int], int | None]
Speakers = Sequence[Hashable]


@dataclass(frozen=True)
class _Clock:
    """The bucket that a speaker's record showed, and where, counted from both ends of it; empty when it is not told."""

    text: bytes = b""
    from_start: int = 0
    from_end: int = 0

    def is_shown_in(self, value: bytes) -> bool:
        """Whether the record shows the same bucket at the same place."""
        if not self.text:
            return False
        start = len(value) - self.from_end
        return value.startswith(self.text, self.from_start) or (start >= 0 and value.startswith(self.text, start))


class Liveness:
    """Chooses for each speaker (key, host, kernel or not) of a source records of every bucket of time he spoke in.

    Records of one speaker come in order, so the first and the last are enough when their buckets touch; otherwise the
    one in the middle is looked at, and so on. A speaker whose last record shows the bucket that was looked at before is
    passed over.
    """

    def __init__(self) -> None:
        self._kernel = HyperscanScanner(_KERNEL)
        self._clocks_by_source: dict[str, dict[Hashable, _Clock]] = {}

    def look(self, batch: Batch, end: int, time_of: TimeOf) -> None:
        """Call `time_of` for the records to look at; it gives the event time, or None when there is none."""
        if not end:
            return
        clocks = self._clocks_by_source.setdefault(batch.source, {})
        if len(clocks) > MOST_SPEAKERS:
            clocks.clear()
        speakers = self._speakers(batch, end)
        moved = {
            who: at
            for who, at in _last(speakers, end).items()
            if at == end - 1 or who not in clocks or not clocks[who].is_shown_in(batch.values[at])
        }
        first = _first(speakers, end, moved)
        look = _Look(batch, speakers, end, time_of)
        for who, at in moved.items():
            clocks[who] = look.between(who, first[who], at, is_new=who not in clocks)

    def _speakers(self, batch: Batch, end: int) -> Speakers:
        """Who wrote each record, as far as a glance tells: its key, else a host it names; and whether its kernel."""
        if isinstance(batch.values, TextLines):
            return batch.keys
        speakers: list[Hashable] = list(batch.keys if _are_keyed(batch, end) else _hosts(batch, end))
        for number, _ in self._kernel.scan(batch.values):
            if number < end and not isinstance(speakers[number], tuple):
                speakers[number] = (speakers[number], "kernel")
        return speakers


class _Look:
    """One look through a batch."""

    def __init__(self, batch: Batch, speakers: Speakers, end: int, time_of: TimeOf):
        self._batch, self._speakers, self._end, self._time_of = batch, speakers, end, time_of
        self._numbers_by_speaker: dict[Hashable, list[int]] = {}

    def between(self, who: Hashable, first: int, last: int, is_new: bool) -> _Clock:
        """Look at the speaker's records as far as needed, the very first one always; the clock of the last."""
        last_ns = self._time_of(last)
        clock = _clock(self._batch.values[last], last_ns)
        shown = self._batch.values[first]
        is_same_bucket = first == last or (clock.is_shown_in(shown) and not is_new)
        if not is_same_bucket:
            self._fill_all(self._numbers(who))
        return clock

    def _fill_all(self, numbers: Sequence[int]) -> None:
        """Where the first or the last records tell no time, the nearest that do stand for them."""
        newest = len(numbers) - 1
        first = self._timed(numbers, range(min(newest + 1, MOST_UNTIMED)))
        last = self._timed(numbers, range(newest, max(-1, newest - MOST_UNTIMED), -1))
        if first and last:
            self._fill(numbers[first[0] : last[0] + 1], first[1], last[1])

    def _timed(self, numbers: Sequence[int], indexes: Iterable[int]) -> tuple[int, int] | None:
        """The first of these records that tells its time."""
        for index in indexes:
            if (time_ns := self._time_of(numbers[index])) is not None:
                return index, time_ns
        return None

    def _fill(self, numbers: Sequence[int], first_ns: int, last_ns: int) -> None:
        waiting = [(0, len(numbers) - 1, first_ns, last_ns)]
        while waiting:
            low, high, low_ns, high_ns = waiting.pop()
            if high - low >= 2 and abs(high_ns // BUCKET_NS - low_ns // BUCKET_NS) >= 2:
                middle = (low + high) // 2
                timed = self._timed(numbers, range(middle, max(low, middle - MOST_UNTIMED), -1))
                below, middle_ns = timed or (low, low_ns)
                waiting += [(low, below, low_ns, middle_ns), (middle, high, middle_ns, high_ns)]

    def _numbers(self, who: Hashable) -> Sequence[int]:
        if isinstance(self._speakers, Repeated):
            return range(self._end)
        if not self._numbers_by_speaker:
            for number, one in enumerate(islice(self._speakers, self._end)):
                self._numbers_by_speaker.setdefault(one, []).append(number)
        return self._numbers_by_speaker[who]


def _clock(value: bytes, time_ns: int | None) -> _Clock:
    """The clock of a record, when its text shows the bucket of its event time, once, and no other; else nothing."""
    shown = list(_CLOCKS.finditer(value))
    if time_ns is None or len(shown) != 1:
        return _Clock()
    text = shown[0][0]
    if text.replace(b" ", b"T") == iso_from_ns(time_ns)[:18].encode() or text == b"%d" % (time_ns // BUCKET_NS):
        return _Clock(text, shown[0].start(), len(value) - shown[0].start())
    return _Clock()


def _are_keyed(batch: Batch, end: int) -> bool:
    """Whether the keys tell the speakers apart: not when all are the same, as of the lines of one file."""
    if isinstance(batch.keys, Repeated):
        return False
    return any(key and key != batch.keys[0] for key in islice(batch.keys, end)) or end == 1


def _hosts(batch: Batch, end: int) -> list[bytes]:
    return [_host(value) for value in islice(batch.values, end)]


def _host(value: bytes) -> bytes:
    for mark in _NODE_MARKS:
        start = value.find(mark)
        if start >= 0:
            return value[start : start + _NODE_BYTES]
    return b""


def _last(speakers: Speakers, end: int) -> dict[Hashable, int]:
    if isinstance(speakers, Repeated):
        return {speakers.content: end - 1}
    return dict(zip(islice(speakers, end), range(end), strict=True))


def _first(speakers: Speakers, end: int, moved: dict[Hashable, int]) -> dict[Hashable, int]:
    if isinstance(speakers, Repeated):
        return {speakers.content: 0}
    if len(moved) <= FEW_SPEAKERS:
        return {who: speakers.index(who) for who in moved}
    return dict(zip(reversed(speakers[:end]), range(end - 1, -1, -1), strict=True))
