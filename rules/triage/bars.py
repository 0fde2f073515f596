"""Progress bars without a name: they may count anything, unless the log shows that one counts training steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from epicenter.rules.triage.steps import whole

MAX_KEPT_TOTALS: Final = 64
ADVANCES_TO_TRUST: Final = 2
"""A bar that advances between so many reports of training spans them; that of an evaluation begins again in between."""

_UNITS: Final = {"k": 10**3, "M": 10**6, "G": 10**9}


class Bar(NamedTuple):
    """How far a bar got; `is_rounded` if its numbers have three digits (`1.20k/10.0k`, tqdm's `unit_scale`)."""

    step: int
    total: int
    is_rounded: bool


@dataclass
class _Course:
    """A bar's step, the step at the last report of training, and between how many reports it advanced."""

    step: int
    reported: int | None = None
    advances: int = 0


@dataclass
class Bars:
    """The unnamed bars of a log, told apart by their totals. `newest` is the one that moved last."""

    newest: Bar | None = None
    _by_total: dict[int, _Course] = field(default_factory=dict)

    def note(self, bar: Bar, total: int | None) -> bool:
        """Whether the bar counts training steps: up to the job's `total`, or across reports of training."""
        self.newest = bar
        course = self._by_total.get(bar.total)
        if course is None and len(self._by_total) >= MAX_KEPT_TOTALS:
            return False
        if course is None or bar.step < course.step:
            course = self._by_total[bar.total] = _Course(bar.step)
        if course.reported is not None and bar.step > course.reported:
            course.advances, course.reported = course.advances + 1, None
        course.step = bar.step
        return bar.total == total or course.advances >= ADVANCES_TO_TRUST

    def note_report(self) -> None:
        """A line reports training, such as its loss, without a step."""
        for course in self._by_total.values():
            course.reported = course.step


def bar_of(fields: Mapping[str, str]) -> Bar | None:
    """The unnamed bar in a progress line; None if there is none."""
    return _bar(fields.get("bar_step", ""), fields.get("bar_total", ""))


def scaled_bar_of(fields: Mapping[str, str]) -> Bar | None:
    """The training bar in a progress line whose numbers are rounded; None if there is none."""
    return _bar(fields.get("step_scaled", ""), fields.get("total_scaled", ""))


def _bar(step_text: str, total_text: str) -> Bar | None:
    step, total = number_of(step_text), number_of(total_text)
    if step is None or not total:
        return None
    return Bar(step, total, is_rounded=not (step_text + total_text).isdigit())


def number_of(text: str) -> int | None:
    """The number of a bar, rounded or not: `1.20k` is 1200; None if the text is none."""
    unit = _UNITS.get(text[-1:], 1)
    try:
        return round(float(text.rstrip("kMG")) * unit) if len(text) < 12 else None
    except ValueError:
        return whole(text)
