"""A time axis in pixels: busy stretches are drawn to scale, long quiet ones are cut short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.text import humanize

BREAK_PX: Final = 68
MIN_BREAK_NS: Final = 20 * NS_PER_S
MIN_STRETCH_NS: Final = NS_PER_S // 5
TICK_LABEL_PX: Final = 76
MIN_LABEL_INSET_PX: Final = 41.0
"""The middle of a label is at least this far from a break, which has its own label."""

_STEPS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(seconds * 1_000 for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800)),
    *(hours * 3_600_000 for hours in (1, 2, 3, 6, 12, 24, 48, 168)),
)


class Tick(msgspec.Struct, frozen=True):
    """A tick on the axis; its label is centred on `label_x`, away from the edges."""

    x: float
    label_x: float
    label: str


class Break(msgspec.Struct, frozen=True):
    """A quiet stretch that is cut short, from `left` to `right`; the label is its length."""

    left: float
    right: float
    label: str


class Stretch(msgspec.Struct, frozen=True):
    """A part of the axis with a linear scale."""

    begin_ns: int
    end_ns: int
    left: float
    right: float
    is_break: bool = False

    def x(self, time_ns: int) -> float:
        """The x of a time."""
        share = (time_ns - self.begin_ns) / max(1, self.end_ns - self.begin_ns)
        return round(self.left + share * (self.right - self.left), 1)


class TimeScale(msgspec.Struct, frozen=True):
    """Stretches and breaks from left to right, without gaps."""

    stretches: tuple[Stretch, ...]

    @property
    def right(self) -> float:
        """The right end of the axis."""
        return self.stretches[-1].right

    def x(self, time_ns: int) -> float:
        """The x of a time, clamped to the ends of the axis."""
        clamped = min(max(time_ns, self.stretches[0].begin_ns), self.stretches[-1].end_ns)
        return next(stretch for stretch in self.stretches if clamped <= stretch.end_ns).x(clamped)

    def breaks(self) -> tuple[Break, ...]:
        """The stretches that are cut short."""
        cut = (stretch for stretch in self.stretches if stretch.is_break)
        return tuple(Break(gap.left, gap.right, humanize.length(gap.end_ns - gap.begin_ns)) for gap in cut)

    def ticks(self) -> tuple[Tick, ...]:
        """Round times spaced so that the labels fit; at least one per stretch."""
        return tuple(tick for stretch in self.stretches if not stretch.is_break for tick in _ticks(stretch))


def scale_of(times_ns: Sequence[int], left: float, right: float) -> TimeScale:
    """A scale from `left` to `right` that covers all these times."""
    groups = _busy_spans(times_ns)
    room = right - left - BREAK_PX * (len(groups) - 1)
    lengths = [end_ns - begin_ns for begin_ns, end_ns in groups]
    weights = [max(length_ns, sum(lengths) / (2 * len(groups))) for length_ns in lengths]
    stretches: list[Stretch] = []
    for (begin_ns, end_ns), weight in zip(groups, weights, strict=True):
        if stretches:
            last = stretches[-1]
            stretches.append(Stretch(last.end_ns, begin_ns, last.right, last.right + BREAK_PX, is_break=True))
        start = stretches[-1].right if stretches else left
        stretches.append(Stretch(begin_ns, end_ns, start, start + room * weight / sum(weights)))
    return TimeScale(tuple(stretches))


def tick_times(begin_ns: int, end_ns: int, max_ticks: int) -> list[int]:
    """Round times from `begin_ns` to `end_ns`, both included, evenly apart; at most `max_ticks`."""
    span_ms = max(1, (end_ns - begin_ns) // 1_000_000)
    fitting = (step for step in _STEPS_MS if span_ms / step <= max_ticks - 1)
    weeks = -(-span_ms // (_STEPS_MS[-1] * (max_ticks - 1)))
    step_ns = next(fitting, weeks * _STEPS_MS[-1]) * 1_000_000
    first_ns = -(-begin_ns // step_ns) * step_ns
    return list(range(first_ns, end_ns + 1, step_ns))[:max_ticks]


def _ticks(stretch: Stretch) -> Iterable[Tick]:
    max_ticks = max(2, int((stretch.right - stretch.left) // TICK_LABEL_PX))
    times = tick_times(stretch.begin_ns, stretch.end_ns, max_ticks) or [stretch.begin_ns]
    digits = 0 if all(time_ns % NS_PER_S == 0 for time_ns in times) else 1 if times[-1] - times[0] > NS_PER_S else 3
    last_x = stretch.left - TICK_LABEL_PX
    for time_ns in times:
        x = stretch.x(time_ns)
        label_x = round(min(max(x, stretch.left + MIN_LABEL_INSET_PX), stretch.right - MIN_LABEL_INSET_PX), 1)
        if label_x - last_x >= TICK_LABEL_PX:
            last_x = label_x
            yield Tick(x, label_x, humanize.clock(time_ns, digits))


def _busy_spans(times_ns: Sequence[int]) -> list[tuple[int, int]]:
    """The spans in which things happen, with margins; between them are long quiet stretches."""
    times = sorted(times_ns)
    longest_ns = max(MIN_BREAK_NS, (times[-1] - times[0]) // 4)
    groups = [[times[0], times[0]]]
    for earlier, later in pairwise(times):
        if later - earlier > longest_ns:
            groups.append([later, later])
        groups[-1][1] = later
    margins = [max(MIN_STRETCH_NS, end_ns - begin_ns) // 20 for begin_ns, end_ns in groups]
    return [(begin - margin, end + margin) for (begin, end), margin in zip(groups, margins, strict=True)]
