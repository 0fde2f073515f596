"""Which records of a batch tell who was alive: few, and the same buckets of time however batches are cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from typing import Final

from ingest.batch import Batch
from ingest.text import Repeated, TextLines
from rules.silence.streams import BUCKET_NS
from rules.times import iso_from_ns

MOST_SPEAKERS: Final = 200_000
"""So many speakers of one source are remembered; with more, all are forgotten and looked at again."""

_NODE_MARKS = (b'"pod_node_name":"', b'"host":"', b'"hostname":"', b'"node":"', b'"_HOSTNAME":"', b'"node_name":"')
_NODE_BYTES = 48
_CLOCKS = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d|\b1[5-9]\d{7}(?=\d)")
"""ISO 8601 up to the tens of seconds, or as much of an epoch time: the same text means the same bucket."""

TimeOf = Callable[[int], int | None]
Groups = Sequence[Hashable]


class Liveness:
    """Chooses for each speaker (key, host, kernel or not) of a source records of every bucket of time he spoke in.

    Records of one speaker come in order, so the first and the last are enough when their buckets touch; otherwise the
    one in the middle is looked at, and so on. A last record whose clock reads the bucket looked at before is skipped.
    """

    def __init__(self) -> None:
        self._clock_by_speaker: dict[str, dict[Hashable, bytes]] = {}

    def look(self, batch: Batch, end: int, time_of: TimeOf) -> None:
        """Call `time_of` for the records to look at; it gives the event time, or None when there is none."""
        if not end:
            return
        clocks = self._clock_by_speaker.setdefault(batch.source, {})
        if len(clocks) > MOST_SPEAKERS:
            clocks.clear()
        speakers = _speakers(batch, end)
        last = _last(speakers, end)
        moved = {who: at for who, at in last.items() if at == end - 1 or not _is_known(batch, at, clocks.get(who))}
        if not moved:
            return
        first = _first(speakers, end)
        groups = _Numbers(speakers, end)
        for who, at in sorted(moved.items(), key=lambda one: one[1]):
            clocks[who] = _look_between(batch, groups, who, first[who], at, time_of)


def _look_between(batch: Batch, groups: _Numbers, who: Hashable, first: int, last: int, time_of: TimeOf) -> bytes:
    last_ns = time_of(last)
    first_ns = last_ns if first == last else time_of(first)
    if first_ns is not None and last_ns is not None and _is_apart(first_ns, last_ns):
        numbers = groups.of(who)
        for _ in _between(numbers, 0, len(numbers) - 1, first_ns, last_ns, time_of):
            pass
    return _clock(batch, last, last_ns)


def _between(numbers: Sequence[int], low: int, high: int, low_ns: int, high_ns: int, time_of: TimeOf) -> Iterator[int]:
    if high - low < 2 or not _is_apart(low_ns, high_ns):
        return
    middle = (low + high) // 2
    found_ns = time_of(numbers[middle])
    middle_ns = low_ns if found_ns is None else found_ns
    yield middle
    yield from _between(numbers, low, middle, low_ns, middle_ns, time_of)
    yield from _between(numbers, middle, high, middle_ns, high_ns, time_of)


def _is_apart(first_ns: int, last_ns: int) -> bool:
    return abs(last_ns // BUCKET_NS - first_ns // BUCKET_NS) >= 2


def _is_known(batch: Batch, number: int, clock: bytes | None) -> bool:
    return bool(clock) and set(_CLOCKS.findall(batch.values[number])) == {clock}


def _clock(batch: Batch, number: int, time_ns: int | None) -> bytes:
    """The clock of a record, when its text tells the bucket of its event time and no other; else nothing."""
    told = set(_CLOCKS.findall(batch.values[number]))
    if time_ns is None or len(told) != 1:
        return b""
    (clock,) = told
    iso = iso_from_ns(time_ns)[:18].encode()
    return clock if clock.replace(b" ", b"T") == iso or clock == b"%d" % (time_ns // BUCKET_NS) else b""


def _speakers(batch: Batch, end: int) -> Groups:
    """Who wrote each record, as far as a glance tells: its key, else a host that it names; and whether its kernel."""
    if isinstance(batch.values, TextLines):
        return batch.keys
    values = islice(batch.values, end)
    if not isinstance(batch.keys, Repeated) and (not batch.keys[0] or batch.keys[0] != batch.keys[end - 1]):
        keyed = zip(batch.keys, values, strict=False)
        return [key if b" kernel: " not in value and b'"kernel"' not in value else (key, 1) for key, value in keyed]
    marks = _marks(batch, end)
    return [(_host(value, marks), b" kernel: " in value or b'"kernel"' in value) for value in values]


def _marks(batch: Batch, end: int) -> list[bytes]:
    """The marks of hosts that this batch has, by its first, middle and last record."""
    shown = [batch.values[number] for number in (0, end // 2, end - 1)]
    return [mark for mark in _NODE_MARKS if any(mark in value for value in shown)] or list(_NODE_MARKS)


def _host(value: bytes, marks: Sequence[bytes]) -> bytes:
    for mark in marks:
        start = value.find(mark)
        if start >= 0:
            return value[start : start + _NODE_BYTES]
    return b""


def _last(speakers: Groups, end: int) -> dict[Hashable, int]:
    if isinstance(speakers, Repeated):
        return {speakers.content: end - 1}
    return dict(zip(islice(speakers, end), range(end), strict=True))


def _first(speakers: Groups, end: int) -> dict[Hashable, int]:
    if isinstance(speakers, Repeated):
        return {speakers.content: 0}
    return dict(zip(reversed(speakers[:end]), range(end - 1, -1, -1), strict=True))


class _Numbers:
    """The numbers of each speaker's records, found when first asked for."""

    def __init__(self, speakers: Groups, end: int):
        self._speakers, self._end = speakers, end
        self._by_speaker: dict[Hashable, list[int]] = {}

    def of(self, who: Hashable) -> Sequence[int]:
        """In rising order."""
        if isinstance(self._speakers, Repeated):
            return range(self._end)
        if not self._by_speaker:
            for number, one in enumerate(islice(self._speakers, self._end)):
                self._by_speaker.setdefault(one, []).append(number)
        return self._by_speaker[who]
