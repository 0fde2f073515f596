"""The state of one group of a window, and which of its entries are within the window."""

from __future__ import annotations

from bisect import bisect_left, insort

import msgspec

from epicenter.rules.model.records import Position
from epicenter.rules.packs.windows import WhenSpec


class Entry(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One input. `term` is its place among the names of `of`, -1 for one of `without`.

    `value` is the text of the counted field; `number` is the measured number, or else how many inputs it represents.
    """

    time_ns: int
    signal_id: str
    onset_ns: int
    term: int = 0
    value: str = ""
    number: float = 1.0


class Series(msgspec.Struct):
    """One group of one rule's window; `values` are those of `group_by`.

    Inputs at or before `closed_ns` are settled; before `quiet_until_ns` there is no other signal. `due_ns` is when
    missing input will fulfil the condition, `timer_ns` the timer for it.
    """

    rule: str
    cluster: str
    values: list[str]
    began_ns: int
    entries: list[Entry] = []
    closed_ns: int = -1
    quiet_until_ns: int = 0
    due_ns: int | None = None
    timer_ns: int | None = None
    text: str = ""
    position: Position | None = None

    @property
    def newest_ns(self) -> int:
        """Event time of the newest entry."""
        return self.entries[-1].time_ns

    def has(self, entry: Entry) -> bool:
        """Whether the entry, or a copy of it, is here."""
        place = bisect_left(self.entries, entry)
        return self.entries[place : place + 1] == [entry]

    def insert(self, entry: Entry) -> None:
        """Add an entry in its place: late entries go between earlier ones."""
        insort(self.entries, entry)

    def keep_newest(self, count: int) -> None:
        """Forget all but the newest entries."""
        del self.entries[:-count]


def in_window(when: WhenSpec, entries: list[Entry]) -> list[Entry]:
    """The entries in one window with the newest one, both ends included.

    A sliding window ends at the newest entry; tumbling windows follow each other from 1970 on; a session lasts as long
    as no pause is longer than its gap, and at most `within`.
    """
    newest_ns = entries[-1].time_ns
    if when.window == "tumbling":
        number = newest_ns // when.length_ns
        return [entry for entry in entries if entry.time_ns // when.length_ns == number]
    near = entries[bisect_left(entries, newest_ns - when.length_ns, key=_time_ns) :]
    if when.window == "sliding" or when.gap is None:
        return near
    first = len(near) - 1
    while first and near[first].time_ns - near[first - 1].time_ns <= when.gap:
        first -= 1
    return near[first:]


def _time_ns(entry: Entry) -> int:
    return entry.time_ns


def quiet_until(when: WhenSpec, time_ns: int) -> int:
    """Until when a group that made a signal makes no other, at least to the end of a tumbling window or session."""
    if when.window == "tumbling" or when.kind == "rate":
        window_end_ns = (time_ns // when.length_ns + 1) * when.length_ns
        return max(window_end_ns, time_ns + (when.again_after or 0))
    if when.gap is not None:
        return time_ns + max(when.gap + 1, when.again_after or 0)
    return time_ns + when.quiet_ns
