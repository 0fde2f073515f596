"""Training steps in one log: how far the run got and how long a step takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from epicenter.rules.model.records import LogEvent, Position
from epicenter.rules.model.times import NS_PER_S

WARM_UP_STEPS: Final = 5
"""The step time leaves out this many first steps of a run, which compile and fill caches."""

MAX_KEPT_STEP_TIMES: Final = 50

SLOW_STEPS: Final = 5
"""A step at most this far behind the last one comes from a slower rank; one further back begins a new attempt."""


@dataclass
class Steps:
    """The steps of the newest attempt in a log. A step that goes far back begins a new attempt (a restart).

    The first file with steps decides on attempts and on the step time; further files (Ray workers) repeat the same
    steps, perhaps with more of them. A line with many bars has the number of the first one as its `first_step`.
    `last_before` is the last step of the attempt before. `step_times_s` are the newest ones after the warm-up, as the
    lines state them, or else from one line to the next. `stride` is how many steps apart the progress lines are. Steps
    of runs that restart the count in each epoch are added up; the total is that of all epochs if the lines have their
    number (`has_epoch_total`). `last_time_ns` may be an estimate: then `is_time_estimated`. `is_rounded`: the numbers
    have three digits.
    """

    first: int | None = None
    last: int | None = None
    last_line: int = 0
    lines: int = 0
    last_time_ns: int | None = None
    is_time_estimated: bool = False
    is_rounded: bool = False
    total: int | None = None
    stride: int | None = None
    attempts: int = 1
    last_before: int | None = None
    counts_by_epoch: bool = False
    has_epoch_total: bool = False
    step_times_s: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_KEPT_STEP_TIMES))
    newest_by_rank: dict[int, int] = field(default_factory=dict)
    _source: str = ""
    _epoch: int | None = None
    _steps_before_epoch: int = 0
    _total_so_far: int = 0
    _counts_over_epochs: bool = False
    _is_interrupted: bool = False

    def note(self, fields: Mapping[str, str], event: LogEvent, about_ns: int | None = None) -> bool:
        """Process a progress line; true if it begins a new attempt.

        `about_ns` is the time of a line nearby, for a line that states no time.
        """
        step = whole(fields.get("step"))
        total = whole(fields.get("steps_total") or fields.get("total_steps"))
        if step is None or self._is_another_count(fields, total):
            return False
        self.lines += 1
        self._source = self._source or event.position.source
        if event.position.source != self._source:
            self._note_copy(step, event)
            return False
        step = self._note_epoch(step, fields)
        if is_new := self._is_new_attempt(step):
            self.begin_attempt()
        if total:
            self.total = self._steps_before_epoch + total * self._epochs_to_go(fields)
            self._total_so_far = self._steps_before_epoch + total
        if self.last is None or step > self.last:
            self._advance(step, fields, event, about_ns)
        self._note_rank(event.rank, step)
        return is_new

    def begin_attempt(self) -> None:
        """Forget the steps so far; the next line is the first of a new attempt."""
        self.attempts += 1
        self.last_before = self.last
        self.first = self.last = self.last_time_ns = self.total = self.stride = self._epoch = None
        self.last_line = self._steps_before_epoch = self._total_so_far = 0
        self.is_time_estimated = self._is_interrupted = self.has_epoch_total = self._counts_over_epochs = False
        self.step_times_s.clear()
        self.newest_by_rank.clear()

    def interrupt(self) -> None:
        """Training was just set up: a step that goes back now, by however little, is a restart."""
        self._is_interrupted = True

    @property
    def is_total_of_job(self) -> bool:
        """Whether the total is that of the job: lines that name an epoch, but not how many, count its steps."""
        return self.has_epoch_total or self._counts_over_epochs or (self._epoch is None and not self.counts_by_epoch)

    @property
    def last_position(self) -> Position:
        """The line of the last step in the first file with steps."""
        return Position(self._source, self.last_line)

    @property
    def step_time_s(self) -> float | None:
        """Seconds per step in the steady state; None if unknown."""
        return round(fmean(self.step_times_s), 3) if self.step_times_s else None

    @property
    def ranks_behind(self) -> list[int]:
        """Ranks whose newest step is before the last one, if ranks print steps."""
        newest = max(self.newest_by_rank.values(), default=0)
        return sorted(rank for rank, step in self.newest_by_rank.items() if step < newest)

    def _is_another_count(self, fields: Mapping[str, str], total: int | None) -> bool:
        """A second progress bar, such as that of an evaluation, has another total and no epoch."""
        return total is not None and self.total is not None and total < self.total and "epoch" not in fields

    def _note_epoch(self, step: int, fields: Mapping[str, str]) -> int:
        epoch = whole(fields.get("epoch"))
        if epoch is None:
            return step
        is_next = self._epoch is not None and epoch > self._epoch
        self._counts_over_epochs |= is_next and self.last is not None and not self.counts_by_epoch and step > self.last
        if is_next and self.last is not None and self._steps_before_epoch + step <= self.last:
            self.counts_by_epoch = True
            self._steps_before_epoch = max(self._total_so_far, self.last)
        self._epoch = epoch
        return self._steps_before_epoch + step

    def _epochs_to_go(self, fields: Mapping[str, str]) -> int:
        """This epoch and those after it; 1 if no line has the number, or if the total covers all epochs already."""
        epochs = whole(fields.get("epochs_total"))
        if epochs is None or self._epoch is None or self._counts_over_epochs:
            return 1
        self.has_epoch_total = True
        return max(1, epochs - self._epoch + 1)

    def _is_new_attempt(self, step: int) -> bool:
        if self.last is None or step >= self.last:
            return False
        return self._is_interrupted or step < self.last - SLOW_STEPS

    def _note_copy(self, step: int, event: LogEvent) -> None:
        if self.attempts == 1 and self.last is not None and step > self.last:
            self.last, self.last_line = step, 0
            self.last_time_ns = event.event_time_ns if event.has_own_time else None
        self._note_rank(event.rank, step)

    def _note_rank(self, rank: int | None, step: int) -> None:
        if rank is not None:
            self.newest_by_rank[rank] = max(step, self.newest_by_rank.get(rank, step))

    def _advance(self, step: int, fields: Mapping[str, str], event: LogEvent, about_ns: int | None) -> None:
        stated_s = _seconds(fields)
        time_ns = event.event_time_ns if event.has_own_time else self._estimate(step, stated_s, about_ns)
        if self.first is None or self.last is None:
            first = whole(fields.get("first_step"))
            self.first = step if first is None else min(step, first)
        else:
            self.stride = min(self.stride or step, step - self.last)
            if step >= self.first + WARM_UP_STEPS:
                self._note_step_time(stated_s or self._measured_s(step, time_ns))
        self.last, self.last_line, self.last_time_ns = step, event.position.offset, time_ns
        self.is_time_estimated, self._is_interrupted = not event.has_own_time, False

    def _note_step_time(self, step_time_s: float | None) -> None:
        if step_time_s is not None and step_time_s > 0:
            self.step_times_s.append(step_time_s)

    def _measured_s(self, step: int, time_ns: int | None) -> float | None:
        if time_ns is None or self.last_time_ns is None or self.last is None:
            return None
        return (time_ns - self.last_time_ns) / NS_PER_S / (step - self.last)

    def _estimate(self, step: int, stated_s: float | None, about_ns: int | None) -> int | None:
        """The later of a line nearby, and the time of the last step with the stated step time added."""
        if self.last_time_ns is None or self.last is None or stated_s is None:
            return about_ns
        counted_ns = self.last_time_ns + round(stated_s * NS_PER_S) * (step - self.last)
        return max(counted_ns, about_ns or 0)


def _seconds(fields: Mapping[str, str]) -> float | None:
    for name, scale in (("step_time_s", 1.0), ("step_time_ms", 1e-3)):
        try:
            return float(fields[name]) * scale
        except (KeyError, ValueError):
            continue
    try:
        return 1 / float(fields["steps_per_s"])
    except (KeyError, ValueError, ZeroDivisionError):
        return None


def whole(text: str | None) -> int | None:
    """A step number, which may have commas between thousands; None if the text is not a number."""
    digits = (text or "").replace(",", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else None
