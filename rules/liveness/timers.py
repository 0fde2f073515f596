"""Timers of watched jobs: when a step is overdue, when to check a job again, when a job should have started."""

from __future__ import annotations

from heapq import heappush
from typing import Final

from epicenter.rules.liveness.state import JobWatch
from epicenter.rules.model.times import NS_PER_S, is_known

START_UP_NS: Final = 900 * NS_PER_S
"""A job should complete its first step this long after its banner."""

CHECK_EVERY_NS: Final = 60 * NS_PER_S
CHECK_AGAIN_NS: Final = 30 * NS_PER_S
"""How soon a stalled job is checked again."""

STEP: Final = "step"
CHECK: Final = "look"
START: Final = "start"

Timers = list[tuple[int, str, str]]
"""A heap of (time in ns, kind, key of the job). Snapshots hold it, kinds included."""


def await_step(timers: Timers, key: str, watch: JobWatch) -> None:
    """Set the timer for the moment when the job's next step is overdue, unless an earlier one is set."""
    due_ns = watch.progress.stall_due_ns
    if due_ns is not None and (not watch.step_timer_ns or due_ns < watch.step_timer_ns):
        set_step_timer(timers, key, watch, due_ns)


def set_step_timer(timers: Timers, key: str, watch: JobWatch, time_ns: int) -> None:
    """Set the step timer; an earlier one no longer counts."""
    watch.step_timer_ns = time_ns
    heappush(timers, (time_ns, STEP, key))


def set_check_timer(timers: Timers, key: str, watch: JobWatch, time_ns: int) -> None:
    """Set the timer of the next check; an earlier one no longer counts."""
    watch.check_timer_ns = time_ns
    heappush(timers, (time_ns, CHECK, key))


def set_start_timer(timers: Timers, key: str, banner_ns: int) -> None:
    """Set the timer for the moment when the job should have started, if it is known when its banner came."""
    if is_known(banner_ns):
        heappush(timers, (banner_ns + START_UP_NS, START, key))
