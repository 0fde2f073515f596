"""Progress of each job, its cadence, and when it counts as stopped: a job may be alive without making progress."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import msgspec

from epicenter.rules.model.heartbeats import AFTER, CHECKPOINT, SERVING
from epicenter.rules.model.times import NS_PER_S

MAX_KEPT_PACES: Final = 20
MAX_KEPT_GAPS: Final = 256
SPAN_NS: Final = 5 * NS_PER_S
"""Reports are joined to spans of this time, so that a job of fast steps has a history of 20 minutes too."""

PACES_TO_KNOW: Final = 3
PAUSES_IN_A_ROW: Final = 2
PACES_TO_TRUST: Final = 10
MIN_HISTORY_NS: Final = 30 * NS_PER_S
SLOW_PACES_TO_TRUST: Final = 5
LONG_HISTORY_NS: Final = 300 * NS_PER_S
ROUND_NS: Final = 60 * NS_PER_S
"""A step reported again within a minute adds nothing, so one report of it is enough."""

REPORT_NS: Final = NS_PER_S
"""Steps within this time are one report: buffered output comes in bursts."""

EVEN_SAVES: Final = 2
"""After this many checkpoints at one distance, an earlier one is the last: MaxText and others save when they end."""

MIN_SLACK_NS: Final = 15 * NS_PER_S
MIN_SILENCE_NS: Final = 120 * NS_PER_S
"""Silence alone makes no job hang sooner, unless a line reported a root cause: programs pause for a minute."""

IDLE_NS: Final = 7 * 24 * 3600 * NS_PER_S
"""A server may have no request for this long."""

PHASE_NS: Final = 600 * NS_PER_S
ANNOUNCED_NS: Final = 1800 * NS_PER_S
"""A phase that a line announces may last this long after its newest line; ten minutes after the line that ends it."""

STEPS_TO_SETTLE: Final = 500
SETTLED_NS: Final = 3600 * NS_PER_S
"""After this many steps and this time, a job is assumed to have shown every kind of pause."""

BUFFERED_GAP_NS: Final = 10 * NS_PER_S
_DIGITS = (10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 80)
ROUND_PERIODS: Final = tuple(digits * 10**power for power in range(8) for digits in _DIGITS if digits * 10**power >= 20)
"""Usual numbers of steps between checkpoints or evaluations."""


def is_number(text: str, digits: int = 8) -> bool:
    """Whether the text is a whole number that a counter can have."""
    return text.isascii() and text.isdigit() and len(text) < digits


class JobProgress(msgspec.Struct, dict=True):
    """The steps of one job, or of a node whose lines name no job. What only depends on the gaps is cached.

    A report is the first step after a second or more without one. `gaps_ns` are the newest times from report to report,
    `strides` the steps between them, `paces_ns` the time per step; none includes pauses.

    `seen_steps` and `seen_ns` are how much of the job was watched, over all attempts. `longest_pause_ns` is the longest
    pause that neither a line nor a period announced. `has_finished`: the job reported that it is complete, so later
    progress bars are not steps. `before_ns` is the time of the report before the newest, 0 in a new attempt.
    `root_cause_ns` is when a line last reported a root cause on one of its nodes: a pause after it is not an ordinary
    one. Lines explained why its steps may be slow from `slowed_since_ns` until `slowed_ns`. `long_gaps` of the newest
    looked like pauses: more than a few in a row are the pace, with the `pauses` before, which have their steps; an
    announced phase in between says nothing. Snapshots write -1 for an unknown step: the fields `written_…` are as they
    are written. `save_stride` are the steps between the newest two checkpoints,
    `even_saves` how many had that distance. `is_saved_early`: the newest one came before its turn, and no step after
    it. `counted_last` is the last step by the job's own count, unless it `counts_again`, as in the next epoch.
    `span_gaps_ns` and `span_paces_ns` are gaps and paces of spans (`SPAN_NS`); the newest, not yet complete, has
    `open_span_steps` in `open_span_ns`. The newest gap, of `open_gap_ns`, began after step `open_gap_from` and has all
    steps of the report that ends it, as buffered output comes in bursts: it joins a span once the next report begins.
    Lines of progress that state no time may be as late as `may_advance_until_ns`.

    The job counts as stopped at `stall_due_ns`: when the next report is late by 15 s and by three steps (if only every
    nth step is reported, by as much again), or later if its cadence says so (`patience_ns`). A step repeated soon after
    comes from a slower rank. One repeated later by the same rank comes from a job that went back to a checkpoint: a new
    attempt, whose cadence is learnt anew. A step long after the job failed begins one with the same cadence.
    """

    floor_ns: int
    cluster: str = ""
    job: str = ""
    node: str = ""
    attempt: int = 1
    written_last_step: int = msgspec.field(default=-1, name="last_step")
    last_step_ns: int = 0
    written_saved_step: int = msgspec.field(default=-1, name="saved_step")
    paces_ns: list[int] = []
    gaps_ns: list[int] = []
    strides: list[int] = []
    written_reported_step: int = msgspec.field(default=-1, name="told_step")
    reported_ns: int = msgspec.field(default=0, name="told_ns")
    before_ns: int = 0
    steps_in_report: int = msgspec.field(default=0, name="steps_in_telling")
    even_gaps: int = 0
    phase: str = ""
    phase_ns: int = 0
    phase_began_ns: int = 0
    longest_by_phase_ns: dict[str, int] = {}
    longest_round_ns: int = 0
    longest_pause_ns: int = 0
    seen_steps: int = 0
    seen_ns: int = 0
    root_cause_ns: int = msgspec.field(name="trouble_ns", default=0)
    slowed_since_ns: int = 0
    slowed_ns: int = 0
    long_gaps: int = 0
    passed: set[int] = set()
    is_counted: bool = False
    has_ended: bool = False
    has_finished: bool = False
    is_stalled: bool = False
    save_stride: int = 0
    even_saves: int = 0
    is_saved_early: bool = False
    counted_last: int = -1
    counts_again: bool = False
    pauses: list[tuple[int, int]] = []
    span_gaps_ns: list[int] = []
    span_paces_ns: list[int] = []
    open_span_ns: int = 0
    open_span_steps: int = 0
    open_gap_ns: int = 0
    open_gap_from: int = 0
    may_advance_until_ns: int = 0

    @property
    def last_step(self) -> int | None:
        """The newest completed step; None before the first."""
        return None if self.written_last_step < 0 else self.written_last_step

    @property
    def saved_step(self) -> int | None:
        """The step of the newest complete checkpoint; None if there is none."""
        return None if self.written_saved_step < 0 else self.written_saved_step

    def count(self, time_ns: int) -> bool:
        """Count a line of progress without a step number, once a second, unless others have one; true if it counts."""
        is_known = self.written_last_step >= 0 and not self.is_counted
        if is_known and self._is_in_phase:
            self.begin_phase(self.phase, time_ns)
        if is_known or self.has_finished or time_ns // NS_PER_S <= self.last_step_ns // NS_PER_S:
            return False
        self.is_counted = False
        is_further = self.step(self.written_last_step + 1, time_ns)
        self.is_counted = True
        return is_further

    def step(self, step: int, time_ns: int, is_catching_up: bool = False) -> bool:
        """Record a completed step; true if the job advanced. `is_catching_up`: it is new to its rank."""
        if self.is_counted:
            self._begin_again()
            self.written_last_step, self.is_counted = -1, False
        if step <= self.written_last_step:
            if is_catching_up or self._is_soon(time_ns):
                return False
            self._begin_again()
        elif self.has_ended and not (self.has_finished or self._is_soon(time_ns)):
            self._begin_attempt()
        if self.written_reported_step < 0 or time_ns - self.reported_ns >= REPORT_NS:
            self._report(step, time_ns)
        self.steps_in_report += 1
        self.written_last_step, self.last_step_ns = step, max(time_ns, self.last_step_ns)
        self.has_ended = self.has_finished = self.is_stalled = False
        self.is_saved_early = self.is_saved_early and step <= self.written_saved_step
        return True

    def may_advance(self, until_ns: int) -> None:
        """Record that steps of unknown times came before this time."""
        self.may_advance_until_ns = max(self.may_advance_until_ns, until_ns)

    def end(self, is_finished: bool) -> None:
        """Record that the job has ended, complete (`is_finished`) or not."""
        self.has_ended, self.has_finished = True, is_finished

    def begin_phase(self, phase: str, time_ns: int) -> None:
        """Record that a checkpoint, an evaluation or a compilation begins, advances or ends (`AFTER`)."""
        second_ns = time_ns // NS_PER_S * NS_PER_S
        if not self._is_in_phase:
            self.phase_began_ns = second_ns
        self.phase = phase if second_ns > self.phase_ns else max(self.phase, phase)
        self.phase_ns = max(self.phase_ns, second_ns)

    def save(self, step: int, time_ns: int) -> None:
        """Record that the checkpoint of this step is complete."""
        self.begin_phase(AFTER + CHECKPOINT, time_ns)
        stride = step - self.written_saved_step if self.saved_step is not None else 0
        if stride == 0:
            self.written_saved_step = step
            return
        self.is_saved_early = self.even_saves >= EVEN_SAVES and 0 < stride < self.save_stride
        self.even_saves = self.even_saves + 1 if stride == self.save_stride else 1
        self.written_saved_step, self.save_stride = step, stride

    def count_last(self, step: int) -> None:
        """Record that a line counts this step as the job's last, not as that of a shorter evaluation."""
        self.counted_last = max(step, self.counted_last)

    @property
    def completion(self) -> str:
        """What shows that the job completed without a word; empty if nothing does, or a line blames anything else."""
        if self.is_after_root_cause:
            return ""
        if self._has_made_its_last and not self._is_within_phase:
            return f"step {self.last_step} was the last by its own count"
        if self.is_saved_early:
            return f"the checkpoint of step {self.saved_step} came before its turn, and no step after it"
        return ""

    @property
    def _has_made_its_last(self) -> bool:
        return 0 <= self.written_last_step == self.counted_last and not self.counts_again

    @property
    def _is_within_phase(self) -> bool:
        """Whether no line says that the phase is over."""
        return self._is_in_phase and not self.phase.startswith(AFTER)

    @cached_property
    def pace_ns(self) -> int | None:
        """Median time per step in ns; None until enough steps were seen."""
        return median(self.paces_ns[-MAX_KEPT_PACES:]) if len(self.paces_ns) >= PACES_TO_KNOW else None

    @cached_property
    def _median_gap_ns(self) -> int:
        return median(self.gaps_ns)

    @cached_property
    def _median_stride(self) -> int:
        return median(self.strides)

    @cached_property
    def _longest_reported_gap_ns(self) -> int:
        return max(self.gaps_ns, default=0)

    @cached_property
    def _history_ns(self) -> int:
        return sum(self.gaps_ns)

    @property
    def may_only_pause_until_ns(self) -> int:
        """Until when silence alone does not show that the job hangs."""
        if self.is_after_root_cause:
            return 0
        is_sparse = self.usual_stride > 1 and self.reports_every_ns >= 2 * REPORT_NS
        return self.last_step_ns + MIN_SILENCE_NS + (self.reports_every_ns if is_sparse else 0)

    @property
    def reports_every_ns(self) -> int:
        """The median time from one reported step to the next; 0 before the second."""
        return self._median_gap_ns

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two reports so far, pauses included."""
        return max(*self.gaps_ns, *self.longest_by_phase_ns.values(), self.longest_round_ns, 0)

    @property
    def is_buffered(self) -> bool:
        """Whether its steps come in bursts, with long gaps between them."""
        return self.steps_in_report > 2 and len(self.gaps_ns) > 1 and self._median_gap_ns >= BUFFERED_GAP_NS

    @property
    def is_trusted(self) -> bool:
        """Whether the cadence is known well enough to see a stop within a few steps."""
        seen, history_ns = len(self.gaps_ns), self._history_ns
        is_long = seen >= SLOW_PACES_TO_TRUST and history_ns >= LONG_HISTORY_NS
        return is_long or (seen >= PACES_TO_TRUST and history_ns >= MIN_HISTORY_NS)

    @property
    def is_settled(self) -> bool:
        """Whether it was watched for long enough to have shown its pauses."""
        return self.seen_steps >= STEPS_TO_SETTLE and self.seen_ns >= SETTLED_NS

    @property
    def stall_due_ns(self) -> int | None:
        """When the job will count as stopped without another step; None if its pace is unknown or it has ended."""
        if self.pace_ns is None or self.has_ended or self.is_stalled:
            return None
        return max(self.last_step_ns, self.may_advance_until_ns) + self.patience_ns()

    @property
    def next_expected_ns(self) -> int:
        """Until when the job may make no step, as usual or as a line announced; 0 if that is unknown."""
        if self.has_ended:
            return 0
        if self._is_in_phase:
            return self.stall_due_ns or self.phase_ns + ANNOUNCED_NS
        if not self.last_step_ns:
            return 0
        return self.last_step_ns + (self.late_ns() if self.stall_due_ns else self.floor_ns)

    def patience_ns(self) -> int:
        """How long after its last step the job may pause, in ns."""
        gap_ns, longest_ns = self._median_gap_ns, self._longest_reported_gap_ns
        waits = [self.late_ns(), longest_ns * 5 // 2 if self.is_buffered else longest_ns * 3 // 2]
        longest_ns = min(PHASE_NS, 3 * self.longest_pause_ns) if self.is_settled else PHASE_NS
        if self.is_after_root_cause:
            longest_ns = min(longest_ns, self.root_cause_ns + MIN_SLACK_NS - self.last_step_ns)
        waits.append(longest_ns)
        if not self.is_trusted:
            waits += [self.floor_ns, 10 * gap_ns]
        if self._is_in_phase:
            waits.append(self.phase_ns - self.last_step_ns + self._phase_lasts_ns)
            waits.append(2 * self.longest_by_phase_ns.get(self._phase_name, 0))
        stride = self.usual_stride
        last_step = self.written_last_step
        if not self.passed.issuperset(self._periods_between(last_step, last_step + 2 * stride)):
            waits += [PHASE_NS, 2 * self.longest_round_ns]
        return max(waits)

    @property
    def usual_stride(self) -> int:
        """The usual number of steps from one report to the next."""
        return max(1, self._median_stride)

    def late_ns(self) -> int:
        """How long after its last step the next report is late if there is no pause, in ns."""
        pace_ns, gap_ns = self.pace_ns or 0, self._median_gap_ns
        next_ns = pace_ns if gap_ns < 2 * REPORT_NS else gap_ns
        return next_ns + max(MIN_SLACK_NS, 3 * pace_ns, next_ns if self._median_stride > 1 else 0)

    def sentence(self) -> str:
        """The evidence for the stop, as a sentence."""
        pace_s = (self.pace_ns or 0) / NS_PER_S
        if self.is_counted:
            return f"no further progress line; until then there was one every {pace_s:.1f} s"
        return f"no step after step {self.last_step}; until then a step took {pace_s:.1f} s"

    @property
    def last_step_in_words(self) -> str:
        """The last step, as a clause."""
        if self.last_step is None:
            return "it reported no step"
        return "its progress has no step numbers" if self.is_counted else f"the last step was {self.last_step}"

    @property
    def is_after_root_cause(self) -> bool:
        """Whether a line reported a root cause shortly before the last step, or after it."""
        return self.root_cause_ns > self.last_step_ns - ROUND_NS

    @property
    def _phase_lasts_ns(self) -> int:
        """How long the phase may last after its newest line. A job with step numbers is more than a server."""
        if self.phase.startswith(AFTER):
            return PHASE_NS
        return IDLE_NS if self.is_of_a_server else ANNOUNCED_NS

    @property
    def is_of_a_server(self) -> bool:
        """Whether its lines are of requests and of the time: they come as often as people ask."""
        return self.phase == SERVING and self.is_counted

    @property
    def _is_in_phase(self) -> bool:
        """Compared by the second, so that it does not matter which line of a second is reported."""
        return bool(self.phase) and self.phase_ns >= self.last_step_ns // NS_PER_S * NS_PER_S

    @property
    def _phase_name(self) -> str:
        return self.phase.removeprefix(AFTER)

    def _is_soon(self, time_ns: int) -> bool:
        rounds = 1 + 2 * (self.pace_ns or 0) // ROUND_NS
        return time_ns // ROUND_NS <= self.last_step_ns // ROUND_NS + rounds

    def _begin_attempt(self) -> None:
        self.attempt += 1
        self.written_reported_step = -1
        self.phase, self.phase_ns = "", 0

    def _begin_again(self) -> None:
        self.counts_again |= self._has_made_its_last
        self._begin_attempt()
        self.even_gaps = 0
        self.gaps_ns, self.strides, self.span_gaps_ns = [], [], []
        self._forget_cached()
        self.open_span_ns = self.open_span_steps = self.open_gap_ns = 0
        self.even_saves, self.is_saved_early = 0, False

    def _report(self, step: int, time_ns: int) -> None:
        if self.open_gap_ns:
            self._append_span(self.open_gap_ns, self.written_last_step - self.open_gap_from)
            self.open_gap_ns = 0
        if 0 <= self.written_reported_step < step:
            self._record_gap(time_ns - self.reported_ns, step - self.written_reported_step, step)
        self.before_ns = self.reported_ns if self.written_reported_step >= 0 else 0
        self.written_reported_step, self.reported_ns, self.steps_in_report = step, time_ns, 0

    def _record_gap(self, gap_ns: int, stride: int, step: int) -> None:
        self.seen_steps, self.seen_ns = self.seen_steps + stride, self.seen_ns + gap_ns
        self._record_pause(gap_ns, step)
        usual_ns, usual_stride = self._median_gap_ns, self.usual_stride
        is_long = bool(usual_ns) and gap_ns > usual_ns * stride / usual_stride * 13 / 10
        at_round = self._periods_between(self.written_reported_step, step + usual_stride)
        is_announced = self._is_in_phase
        if not is_announced:
            self.long_gaps = self.long_gaps + 1 if is_long else 0
        is_pace = self.long_gaps > PAUSES_IN_A_ROW and not is_announced
        if not is_long or is_pace or not (at_round or is_announced):
            self._pass(step)
            self._append_pauses(is_pace)
            self._append_gap(gap_ns, stride)
            self.open_gap_ns, self.open_gap_from = gap_ns, self.written_last_step
            return
        if is_announced:
            name = self._phase_name
            self.longest_by_phase_ns[name] = max(gap_ns, self.longest_by_phase_ns.get(name, 0))
        else:
            self.pauses = [*self.pauses, (gap_ns, stride)]
        self.even_gaps = 0
        self.passed.difference_update(at_round)
        self.longest_round_ns = max(gap_ns, self.longest_round_ns)

    def _record_pause(self, gap_ns: int, step: int) -> None:
        is_announced = self._is_in_phase and self.phase_began_ns <= self.reported_ns + MIN_SLACK_NS
        at_round = not self.passed.issuperset(
            self._periods_between(self.written_reported_step, step + self.usual_stride)
        )
        if self.is_trusted and gap_ns > self.late_ns() and not is_announced and not at_round:
            self.longest_pause_ns = max(gap_ns, self.longest_pause_ns)

    def _pass(self, step: int) -> None:
        """No pause here. Steps are reported before a pause, after it or one step late, so three gaps must agree."""
        if self.even_gaps >= 2:
            self.passed.update(self._periods_between(self.written_reported_step, step - 1))
        self.even_gaps += 1

    def _append_pauses(self, are_pace: bool) -> None:
        """What looked like pauses in a row is the pace after all, or was pauses."""
        if are_pace:
            for gap_ns, stride in self.pauses:
                self._append_gap(gap_ns, stride)
                self._append_span(gap_ns, stride)
        if are_pace or not self.long_gaps:
            self.pauses = []

    def _append_gap(self, gap_ns: int, stride: int) -> None:
        self.gaps_ns = [*self.gaps_ns[1 - MAX_KEPT_GAPS :], gap_ns]
        self.strides = [*self.strides[1 - MAX_KEPT_PACES :], stride]
        self.paces_ns = [*self.paces_ns[1 - MAX_KEPT_PACES :], gap_ns // stride]
        self._forget_cached()

    def _forget_cached(self) -> None:
        """The gaps have changed."""
        self.__dict__.clear()

    def _append_span(self, gap_ns: int, stride: int) -> None:
        self.open_span_ns, self.open_span_steps = self.open_span_ns + gap_ns, self.open_span_steps + stride
        if self.open_span_ns >= SPAN_NS:
            self.span_gaps_ns = [*self.span_gaps_ns[1 - MAX_KEPT_GAPS :], self.open_span_ns]
            pace_ns = self.open_span_ns // self.open_span_steps
            self.span_paces_ns = [*self.span_paces_ns[1 - MAX_KEPT_GAPS :], pace_ns]
            self.open_span_ns = self.open_span_steps = 0

    def _periods_between(self, first: int, last: int) -> list[int]:
        periods = ROUND_PERIODS[: bisect_right(ROUND_PERIODS, last)]
        return [period for period in periods if last // period > (first - 1) // period]


def median(numbers: Sequence[int]) -> int:
    """The upper of the middle numbers; 0 of none."""
    return sorted(numbers)[len(numbers) // 2] if numbers else 0
