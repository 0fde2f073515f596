"""The kinds of windows: each adds an input to its group and finds out when its condition holds."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from epicenter.rules.detect.metric import slope, spike, threshold
from epicenter.rules.detect.series import Entry, Series, in_window, quiet_until
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.windows import MAX_ENTRIES, WhenSpec

LATE_NS: Final = 3600 * NS_PER_S
"""Inputs that are later than this may find their group forgotten."""

MEASURED: Final = ("slope", "spike")
"""Kinds that compare what one run measures at different times."""

MISSING: Final = -1
"""The `term` of the names in `without`."""


@dataclass(frozen=True)
class Finding:
    """A condition that holds: the inputs it holds for, earliest first, and its figures for the text."""

    entries: Sequence[Entry]
    figures: dict[str, float]


def process(when: WhenSpec, series: Series, entry: Entry) -> Finding | None:
    """Add an input to its group; return the condition that it completes, if any. Copies of inputs change nothing."""
    if entry.time_ns <= series.closed_ns or series.has(entry):
        return None
    return _PROCESSORS.get(when.kind, _process_window)(when, series, entry)


def fire(when: WhenSpec, series: Series) -> Finding | None:
    """No input came until the group's `due_ns`: return the condition that then holds, if any."""
    due_ns = series.due_ns or 0
    due_entries = [entry for entry in series.entries if entry.time_ns <= due_ns]
    series.entries, series.closed_ns = series.entries[len(due_entries) :], due_ns
    series.due_ns = _end_of_interval(when, series.entries[0]) if series.entries else None
    count = sum(entry.number for entry in due_entries)
    if when.kind in ("absence", "tally") and count < when.least:
        return None
    entries = due_entries[-1:] if when.kind == "flat-line" else due_entries
    return _unless_quiet(when, series, due_ns, Finding(entries, {"count": count}))


def is_idle(when: WhenSpec, series: Series, now_ns: int) -> bool:
    """Whether nothing in the group matters to inputs from `LATE_NS` before now on. Some kinds learn what is usual."""
    newest_ns = series.newest_ns if series.entries else series.began_ns
    over_ns = max(newest_ns, series.closed_ns, series.quiet_until_ns) + when.length_ns + LATE_NS
    return when.kind in _FORGETFUL and series.due_ns is None and over_ns < now_ns


def _process_window(when: WhenSpec, series: Series, entry: Entry) -> Finding | None:
    series.insert(entry)
    entries = in_window(when, series.entries)
    in_reach = _RETENTION.get(when.kind, _newest_of_all)(when, entries)
    series.entries = list(in_reach if when.gap is None else _newest_of_all(when, entries))
    if series.newest_ns < series.quiet_until_ns:
        if when.gap is not None:
            series.quiet_until_ns = max(series.quiet_until_ns, quiet_until(when, series.newest_ns))
        return None
    finding = _FINDERS[when.kind](when, in_reach)
    if finding is None:
        return None
    series.closed_ns, series.entries = series.newest_ns, []
    return _unless_quiet(when, series, series.closed_ns, finding)


def _unless_quiet(when: WhenSpec, series: Series, time_ns: int, finding: Finding) -> Finding | None:
    if time_ns < series.quiet_until_ns:
        return None
    series.quiet_until_ns = quiet_until(when, time_ns)
    return finding


def _newest_of_all(when: WhenSpec, entries: Sequence[Entry]) -> Sequence[Entry]:
    return entries[-MAX_ENTRIES:]


def _newest_that_count(when: WhenSpec, entries: Sequence[Entry]) -> Sequence[Entry]:
    return entries[-when.least :]


def _newest_of_each_value(when: WhenSpec, entries: Sequence[Entry]) -> Sequence[Entry]:
    return sorted({entry.value: entry for entry in entries}.values())[-MAX_ENTRIES:]


def _newest_of_each_term(when: WhenSpec, entries: Sequence[Entry]) -> Sequence[Entry]:
    return sorted({entry.term: entry for entry in entries}.values())


def _newest_of_sequence(when: WhenSpec, entries: Sequence[Entry]) -> Sequence[Entry]:
    return entries[-MAX_ENTRIES:] if when.ordered else _newest_of_each_term(when, entries)


def _newest_samples(when: WhenSpec, entries: Sequence[Entry]) -> Sequence[Entry]:
    samples = when.samples or 0
    return entries[-(2 * samples if when.kind == "slope" else 3 * samples + when.newest) :]


def _count(when: WhenSpec, entries: Sequence[Entry]) -> Finding | None:
    return Finding(entries, {"count": len(entries)}) if len(entries) >= when.least else None


def _sequence(when: WhenSpec, entries: Sequence[Entry]) -> Finding | None:
    """The latest inputs in the order of `of`; the newest input is the last of them."""
    names = list(dict.fromkeys(when.of))
    if not when.ordered:
        return _count_up_to(len(names), entries)
    found: list[Entry] = []
    wanted = [names.index(name) for name in reversed(when.of)]
    for number, entry in enumerate(reversed(entries)):
        if entry.term == wanted[len(found)]:
            found.insert(0, entry)
        if number == 0 and not found:
            return None
        if len(found) == len(wanted):
            return Finding(found, {"count": len(found)})
    return None


def _count_up_to(least: int, entries: Sequence[Entry]) -> Finding | None:
    return Finding(entries, {"count": len(entries)}) if len(entries) >= least else None


def _threshold(when: WhenSpec, entries: Sequence[Entry]) -> Finding | None:
    return _measured(entries, threshold([entry.number for entry in entries], when.least, when.above, when.below))


def _slope(when: WhenSpec, entries: Sequence[Entry]) -> Finding | None:
    return _measured(entries, slope([entry.number for entry in entries], when.samples or 0, when.by or 0))


def _spike(when: WhenSpec, entries: Sequence[Entry]) -> Finding | None:
    """The spike, from the first of the newest numbers above the limit."""
    figures = spike([entry.number for entry in entries], when.samples or 0, when.newest, when.by or 0)
    limit = figures["usual"] * (1 + (when.by or 0)) if figures else 0
    newest = entries[-when.newest :]
    since = next((place for place, entry in enumerate(newest) if entry.number > limit), 0)
    return _measured(newest[since:], figures)


def _measured(entries: Sequence[Entry], figures: dict[str, float] | None) -> Finding | None:
    return None if figures is None else Finding(entries, {"count": len(entries), **figures})


def _process_absence(when: WhenSpec, series: Series, entry: Entry) -> Finding | None:
    return (_process_absence_before if when.side == "before" else _process_absence_after)(when, series, entry)


def _process_absence_after(when: WhenSpec, series: Series, entry: Entry) -> None:
    """The first input waits for what should follow; of later ones, as many count as have to come until then."""
    if entry.term == MISSING:
        series.entries = [waiting for waiting in series.entries if waiting.time_ns > entry.time_ns]
        series.closed_ns = max(series.closed_ns, entry.time_ns)
    else:
        series.insert(entry)
        due_ns = series.entries[0].time_ns + when.length_ns
        series.entries = [waiting for waiting in series.entries[: when.least] if waiting.time_ns <= due_ns]
    series.due_ns = series.entries[0].time_ns + when.length_ns if series.entries else None


def _process_absence_before(when: WhenSpec, series: Series, entry: Entry) -> Finding | None:
    """The group has the newest of the expected inputs; nothing is known from before `began_ns`."""
    if entry.term == MISSING:
        series.insert(entry)
        series.keep_newest(1)
        return None
    since_ns = entry.time_ns - when.length_ns
    if since_ns < series.began_ns or any(since_ns <= earlier.time_ns <= entry.time_ns for earlier in series.entries):
        return None
    return _unless_quiet(when, series, entry.time_ns, Finding([entry], {"count": 1}))


def _process_flat_line(when: WhenSpec, series: Series, entry: Entry) -> None:
    """Enough inputs arm it; it is due when fewer than that are left in the window."""
    series.insert(entry)
    series.keep_newest(when.least)
    is_armed = len(series.entries) == when.least
    series.due_ns = series.entries[0].time_ns + when.length_ns if is_armed else None


def _process_tally(when: WhenSpec, series: Series, entry: Entry) -> None:
    """Inputs are only counted; at the end of their interval, the count is reported."""
    series.insert(entry)
    if len(series.entries) > MAX_ENTRIES:
        series.entries = _summed(when, series.entries, entry.time_ns // when.length_ns * when.length_ns)
    series.due_ns = _end_of_interval(when, series.entries[0])


def _end_of_interval(when: WhenSpec, entry: Entry) -> int:
    return (entry.time_ns // when.length_ns + 1) * when.length_ns - 1


def _process_first_seen(when: WhenSpec, series: Series, entry: Entry) -> Finding | None:
    newest_ns = max(entry.time_ns, series.newest_ns if series.entries else 0)
    since_ns = entry.time_ns - when.length_ns
    is_known = any(seen.value == entry.value and seen.time_ns >= since_ns for seen in series.entries)
    series.insert(entry)
    recent = [seen for seen in series.entries if seen.time_ns >= newest_ns - when.length_ns]
    series.entries = list(_newest_of_each_value(when, recent))
    if is_known or entry.time_ns < series.began_ns + when.learn:
        return None
    return _unless_quiet(when, series, entry.time_ns, Finding([entry], {"count": 1}))


def _process_rate(when: WhenSpec, series: Series, entry: Entry) -> Finding | None:
    """The inputs of this interval compared with the mean of the intervals before, which ignore late ones."""
    start_ns = entry.time_ns // when.length_ns * when.length_ns
    if series.entries and start_ns < series.newest_ns // when.length_ns * when.length_ns:
        return None
    is_new = not series.entries or series.newest_ns < start_ns
    series.insert(entry)
    if is_new or len(series.entries) > MAX_ENTRIES + when.baseline:
        series.entries = _summed(when, series.entries, start_ns)
    now = series.entries[bisect_left(series.entries, start_ns, key=_time_ns) :]
    count = sum(counted.number for counted in now)
    usual = (sum(counted.number for counted in series.entries) - count) / when.baseline
    is_known = series.began_ns <= start_ns - when.baseline * when.length_ns
    if not is_known or count < when.least or count < (when.times or 0) * usual:
        return None
    return _unless_quiet(when, series, entry.time_ns, Finding(now, {"count": count, "usual": usual}))


def _summed(when: WhenSpec, entries: Sequence[Entry], start_ns: int) -> list[Entry]:
    """One entry for each earlier interval, and one for the older half of this one if it has very many."""
    now = [entry for entry in entries if entry.time_ns >= start_ns]
    counts = Counter[int]()
    for entry in entries:
        if start_ns - when.baseline * when.length_ns <= entry.time_ns < start_ns:
            counts[entry.time_ns // when.length_ns * when.length_ns] += round(entry.number)
    if len(now) > MAX_ENTRIES:
        half = now[: len(now) // 2]
        now = [replace(half[-1], number=sum(entry.number for entry in half)), *now[len(half) :]]
    return [*(Entry(time_ns, "", time_ns, number=count) for time_ns, count in sorted(counts.items())), *now]


def _time_ns(entry: Entry) -> int:
    return entry.time_ns


_PROCESSORS: Final = MappingProxyType[str, Callable[[WhenSpec, Series, Entry], Finding | None]](
    {
        "absence": _process_absence,
        "flat-line": _process_flat_line,
        "first-seen": _process_first_seen,
        "rate": _process_rate,
        "tally": _process_tally,
    }
)
_RETENTION: Final = MappingProxyType[str, Callable[[WhenSpec, Sequence[Entry]], Sequence[Entry]]](
    {
        "count": _newest_that_count,
        "threshold": _newest_that_count,
        "distinct": _newest_of_each_value,
        "sequence": _newest_of_sequence,
        "slope": _newest_samples,
        "spike": _newest_samples,
    }
)
_FORGETFUL: Final = frozenset((*_RETENTION, "absence"))
_FINDERS: Final = MappingProxyType[str, Callable[[WhenSpec, Sequence[Entry]], Finding | None]](
    {
        "count": _count,
        "distinct": _count,
        "sequence": _sequence,
        "threshold": _threshold,
        "slope": _slope,
        "spike": _spike,
    }
)
