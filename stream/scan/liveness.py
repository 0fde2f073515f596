"""Chooses the few records of a batch that show who was alive: the same time buckets however batches are cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.columns import Repeated
from epicenter.ingest.batch.text import TextLines
from epicenter.rules.liveness.streams import BUCKET_NS
from epicenter.rules.model.times import iso_from_ns

MAX_SPEAKERS: Final = 20_000
"""At most this many writers of one source are remembered; beyond that all are forgotten and read again."""

_NODE_MARKS = (b'"pod_node_name":', b'"host":', b'"hostname":', b'"node":', b'"_HOSTNAME":', b'"node_name":')
_SPACED_NODE_MARK = re.compile(rb'"(?:pod_node_name|host|hostname|node|_HOSTNAME|node_name)"\s+:')
_NODE_BYTES = 48
_CLOCK = rb"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d|\b1[5-9]\d{7}(?=\d))"
_CLOCKS = re.compile(_CLOCK)
"""ISO 8601 up to the tens of seconds, or as much of an epoch time: the same text means the same bucket."""

_CLOCK_FIELDS = re.compile(rb'"(?:@?timestamp|time|date|ts|__REALTIME_TIMESTAMP)"\s*:\s*"?' + _CLOCK)
"""Envelope fields with the event's time, whatever clocks the text shows."""

MAX_CLOCKS: Final = 4
FEW_SPEAKERS: Final = 16
MAX_UNTIMED: Final = 200
"""At most this many records without a time are skipped in search of one with a time."""

_WITHOUT_KEY: Final = (None, b"", (None, "kernel"), (b"", "kernel"))

TimeOf = Callable[[int], int | None]
Speakers = Sequence[Hashable]


class _Clock(NamedTuple):
    """The time bucket of a speaker's record, and every clock in it: its text, and its place from both ends.

    `bucket` is below zero if no clock shows it; without `shown`, the record only has its time of receipt.
    """

    bucket: int = -1
    shown: tuple[tuple[bytes, int, int], ...] = ()

    def fits(self, value: bytes, received_ns: int) -> bool:
        """Whether the record shows the same clocks at the same places, so that its bucket is the same."""
        if self.bucket < 0:
            return False
        if not self.shown:
            return received_ns // BUCKET_NS == self.bucket and not _CLOCKS.search(value)
        return all(_shows(value, *clock) for clock in self.shown)


def _shows(value: bytes, text: bytes, from_start: int, from_end: int) -> bool:
    start = len(value) - from_end
    return value.startswith(text, from_start) or (start >= 0 and value.startswith(text, start))


class _LastSeen(NamedTuple):
    """Clock and host of the last record read of a speaker."""

    clock: _Clock
    host: bytes


class Liveness:
    """Chooses, for each speaker (key, host, kernel or not) of a source, records of every time bucket it wrote in.

    Records of one speaker come in order, so the first and the last are enough when their buckets touch; otherwise the
    one in the middle is read, and so on. A speaker whose last record shows the bucket that was read before is skipped.
    Keys distinguish the speakers until one is seen with two hosts.
    """

    def __init__(self) -> None:
        self._last_seen_by_source: dict[str, dict[Hashable, _LastSeen]] = {}
        self._sources_of_shared_keys: set[str] = set()

    def observe(self, batch: Batch, end: int, of_kernel: Sequence[int], time_of: TimeOf) -> None:
        """Call `time_of` for the chosen records; it returns the event time in ns, or None."""
        if not end:
            return
        known = self._last_seen_by_source.setdefault(batch.source, {})
        if len(known) > MAX_SPEAKERS:
            known.clear()
        speakers = self._speakers(batch, end, of_kernel)
        moved = {
            speaker: at
            for speaker, at in _last(speakers, end).items()
            if at == end - 1
            or speaker not in known
            or not known[speaker].clock.fits(batch.values[at], batch.received_ns[at])
        }
        first = _first(speakers, end, moved)
        if self._are_by_key(batch) and _have_several_hosts(batch.values, moved, first, known):
            self._sources_of_shared_keys.add(batch.source)
            self.observe(batch, end, of_kernel, time_of)
            return
        batch_pass = _BatchPass(batch, speakers, end, time_of)
        for speaker, at in moved.items():
            clock = batch_pass.between(speaker, first[speaker], at, is_new=speaker not in known)
            known[speaker] = _LastSeen(clock, _host(batch.values[at]))

    def _speakers(self, batch: Batch, end: int, of_kernel: Sequence[int]) -> Speakers:
        """Who wrote each record, without parsing it: its key, else a host it names, and whether the kernel wrote it."""
        if isinstance(batch.values, TextLines):
            return batch.keys
        keys = batch.keys[:end]
        are_keys = self._are_by_key(batch)
        speakers: list[Hashable] = list(keys if are_keys else zip(keys, _hosts(batch, end), strict=True))
        for number in of_kernel:
            if number < end:
                speakers[number] = (speakers[number], "kernel")
        return speakers

    def _are_by_key(self, batch: Batch) -> bool:
        """Whether keys distinguish the speakers, by all records of the source so far."""
        return not isinstance(batch.keys, Repeated) and batch.source not in self._sources_of_shared_keys


class _BatchPass:
    """One pass over a batch."""

    def __init__(self, batch: Batch, speakers: Speakers, end: int, time_of: TimeOf):
        self._batch, self._speakers, self._end, self._time_of = batch, speakers, end, time_of
        self._numbers_by_speaker: dict[Hashable, list[int]] = {}

    def between(self, speaker: Hashable, first: int, last: int, is_new: bool) -> _Clock:
        """Read as many of the speaker's records as needed, always the very first one; return the clock of the last."""
        values, received_ns = self._batch.values, self._batch.received_ns
        clock = _clock(values[last], self._time_of(last), received_ns[last])
        if first == last:
            return clock
        if not clock.fits(values[first], received_ns[first]):
            self._fill_all(self._numbers(speaker))
        elif is_new:
            self._time_of(first)
        return clock

    def _fill_all(self, numbers: Sequence[int]) -> None:
        """Where the first or last records have no time, use the nearest that do."""
        newest = len(numbers) - 1
        first = self._timed(numbers, range(min(newest + 1, MAX_UNTIMED)))
        last = self._timed(numbers, range(newest, max(-1, newest - MAX_UNTIMED), -1))
        if first and last:
            self._fill(numbers[first[0] : last[0] + 1], first[1], last[1])

    def _timed(self, numbers: Sequence[int], indexes: Iterable[int]) -> tuple[int, int] | None:
        """The first of these records that has a time."""
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
                timed = self._timed(numbers, range(middle, max(low, middle - MAX_UNTIMED), -1))
                below, middle_ns = timed or (low, low_ns)
                waiting += [(low, below, low_ns, middle_ns), (middle, high, middle_ns, high_ns)]

    def _numbers(self, speaker: Hashable) -> Sequence[int]:
        if isinstance(self._speakers, Repeated):
            return range(self._end)
        if not self._numbers_by_speaker:
            for number, owner in enumerate(islice(self._speakers, self._end)):
                self._numbers_by_speaker.setdefault(owner, []).append(number)
        return self._numbers_by_speaker[speaker]


def _clock(value: bytes, time_ns: int | None, received_ns: int) -> _Clock:
    """The clocks of a record, when one of them shows the bucket of its event time, or its receipt is that time."""
    if time_ns is None:
        return _Clock()
    bucket = time_ns // BUCKET_NS
    if time_ns == received_ns:
        return _Clock(bucket)
    tens_of_seconds = (iso_from_ns(time_ns)[:18].encode(), b"%d" % bucket)
    for clocks in (_CLOCK_FIELDS, _CLOCKS):
        found = list(islice(clocks.finditer(value), MAX_CLOCKS))
        if len(found) < MAX_CLOCKS and any(clock[1].replace(b" ", b"T") in tens_of_seconds for clock in found):
            return _Clock(bucket, tuple((clock[0], clock.start(), len(value) - clock.start()) for clock in found))
    return _Clock()


def _have_several_hosts(
    values: Sequence[bytes], last: dict[Hashable, int], first: dict[Hashable, int], known: dict[Hashable, _LastSeen]
) -> bool:
    """Whether a speaker names different hosts, or has no key."""
    for speaker, at in last.items():
        hosts = {_host(values[first[speaker]]), _host(values[at])}
        if speaker in known:
            hosts.add(known[speaker].host)
        if len(hosts - {b""}) > 1 or speaker in _WITHOUT_KEY:
            return True
    return False


def _hosts(batch: Batch, end: int) -> list[bytes]:
    return [_host(value) for value in islice(batch.values, end)]


def _host(value: bytes) -> bytes:
    for mark in _NODE_MARKS:
        start = value.find(mark)
        if start >= 0:
            return value[start : start + _NODE_BYTES]
    spaced = _SPACED_NODE_MARK.search(value) if value.startswith(b"{") else None
    return value[spaced.start() : spaced.start() + _NODE_BYTES] if spaced else b""


def _last(speakers: Speakers, end: int) -> dict[Hashable, int]:
    if isinstance(speakers, Repeated):
        return {speakers.content: end - 1}
    return dict(zip(islice(speakers, end), range(end), strict=True))


def _first(speakers: Speakers, end: int, moved: dict[Hashable, int]) -> dict[Hashable, int]:
    if isinstance(speakers, Repeated):
        return {speakers.content: 0}
    if len(moved) <= FEW_SPEAKERS:
        return {speaker: speakers.index(speaker) for speaker in moved}
    return dict(zip(reversed(speakers[:end]), range(end - 1, -1, -1), strict=True))
