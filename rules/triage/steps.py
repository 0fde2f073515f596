"""Training steps as one log tells them: how far the run came and how long a step takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from rules.model import NS_PER_S, LogEvent

WARM_UP_STEPS: Final = 5
"""So many first steps of a run are left out of the step time: they compile and fill caches."""

KEPT_STEP_TIMES: Final = 50


@dataclass
class Steps:
    """The steps of the newest attempt in a log. A step that goes back begins a new attempt (a restart).

    `step_times_s` are the newest ones after the warm-up, as the lines state them, else from one line to the next.
    """

    first: int | None = None
    last: int | None = None
    last_line: int = 0
    last_time_ns: int | None = None
    total: int | None = None
    attempts: int = 1
    step_times_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_STEP_TIMES))
    newest_by_rank: dict[int, int] = field(default_factory=dict)

    def note(self, fields: Mapping[str, str], event: LogEvent) -> None:
        """Take in a progress line; one without a step number counts for nothing here."""
        step = _whole(fields.get("step"))
        if step is None:
            return
        self.total = _whole(fields.get("steps_total")) or self.total
        time_ns = event.event_time_ns if event.has_own_time else None
        if self.last is None or self.first is None:
            self.first = step
        elif step < self.last and _is_same_speaker(self.newest_by_rank, event.rank, self.last):
            self.attempts += 1
            self.first, self.last_time_ns = step, None
            self.step_times_s.clear()
        elif step <= self.last:
            self._note_rank(event.rank, step)
            return
        self._note_time(step, fields, time_ns)
        self.last, self.last_line, self.last_time_ns = step, event.position.offset, time_ns
        self._note_rank(event.rank, step)

    @property
    def step_time_s(self) -> float | None:
        """Seconds a step in the steady state; None when nothing tells it."""
        return round(fmean(self.step_times_s), 3) if self.step_times_s else None

    @property
    def ranks_behind(self) -> list[int]:
        """Ranks whose newest step is before the last one, when ranks print their own steps."""
        newest = max(self.newest_by_rank.values(), default=0)
        return sorted(rank for rank, step in self.newest_by_rank.items() if step < newest)

    def _note_rank(self, rank: int | None, step: int) -> None:
        if rank is not None:
            self.newest_by_rank[rank] = step

    def _note_time(self, step: int, fields: Mapping[str, str], time_ns: int | None) -> None:
        if self.first is None or step < self.first + WARM_UP_STEPS:
            return
        stated = _seconds(fields)
        if stated is None and time_ns is not None and self.last_time_ns is not None and self.last is not None:
            stated = (time_ns - self.last_time_ns) / NS_PER_S / max(1, step - self.last)
        if stated is not None and stated > 0:
            self.step_times_s.append(stated)


def _is_same_speaker(newest_by_rank: Mapping[int, int], rank: int | None, last: int) -> bool:
    return rank is None or newest_by_rank.get(rank) == last


def _seconds(fields: Mapping[str, str]) -> float | None:
    for name, scale in (("step_time_s", 1.0), ("step_time_ms", 1e-3)):
        try:
            return float(fields[name]) * scale
        except (KeyError, ValueError):
            continue
    return None


def _whole(text: str | None) -> int | None:
    digits = (text or "").replace(",", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else None
