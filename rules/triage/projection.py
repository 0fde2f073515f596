"""How far the run got, what it lost, and where it should be by now."""

from __future__ import annotations

from typing import Final

import msgspec

from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from epicenter.rules.triage.document import ProgressReport
from epicenter.rules.triage.steps import Steps, whole
from epicenter.rules.triage.story import TOTALS, Story

DEFAULT_CHECKPOINT_PERIOD: Final = 200
"""MaxText's default, if checkpoints are on and the log has no period."""

ZERO_BASED: Final = {"progress.maxtext", "progress.nanogpt", "progress.nemo"}
"""Progress rules of frameworks that count steps from 0."""

BARS: Final = {"progress.tqdm", "progress.bar", "progress.lightning"}
"""Progress rules of bars: a bar at 0 is one that has not moved yet."""

_SAVED: Final = ("job.checkpoint_saved", "progress.checkpoint_saved")


def measure(story: Story) -> ProgressReport:
    """How far the run got, by its log alone; steps have the framework's numbers."""
    steps = story.steps
    total, period, pace_s = _total_steps(story), _checkpoint_period(story), steps.step_time_s
    if steps.first is None or steps.last is None:
        bar = story.bars.newest
        return ProgressReport(
            total_steps=total,
            checkpoint_period=period,
            attempts=steps.attempts,
            bar_step=bar.step if bar else None,
            bar_total=bar.total if bar else None,
            is_rounded=bool(bar and bar.is_rounded),
        )
    (start, restored), saved = _start(story, steps.first), _last_checkpoint(story, steps.last, period)
    this_run, done = _steps_this_run(story, steps.first, steps.last), steps.last + _is_zero_based(story)
    resumable = max((step for step in (saved, restored) if step is not None), default=None)
    lost = this_run if resumable is None else max(0, steps.last - resumable)
    left = max(0, total - done) if total else None
    return ProgressReport(
        start=start,
        restored_step=restored,
        first_step=steps.first,
        last_step=steps.last,
        last_step_time=iso_from_ns(steps.last_time_ns) if steps.last_time_ns is not None else None,
        is_time_estimated=steps.is_time_estimated and steps.last_time_ns is not None,
        is_rounded=steps.is_rounded,
        steps_this_run=this_run,
        steps_done=done,
        total_steps=total,
        percent=round(100 * done / total, 1) if total else None,
        step_time_s=pace_s,
        checkpoint_period=period,
        last_checkpoint_step=saved,
        steps_lost=lost,
        time_lost_s=round(lost * pace_s, 1) if pace_s else None,
        time_left_s=round(left * pace_s, 1) if pace_s and left is not None else None,
        attempts=steps.attempts,
    )


def project(measured: ProgressReport, steps: Steps, as_of_ns: int | None, is_lost: bool) -> ProgressReport:
    """The progress compared with what is expected by a time.

    `is_lost`: steps after the last checkpoint are, or would be, lost; those of a completed job are not.
    """
    if measured.last_step is None:
        return measured
    progress = msgspec.structs.replace(measured, expected_step_now=_expected_step(measured, steps, as_of_ns))
    if is_lost:
        return progress
    return msgspec.structs.replace(progress, steps_lost=0, time_lost_s=0.0 if measured.step_time_s else None)


def _expected_step(measured: ProgressReport, steps: Steps, as_of_ns: int | None) -> int | None:
    """The step expected by then; None if the log does not show when and how fast steps were completed."""
    last, pace_s, total = measured.last_step, measured.step_time_s, measured.total_steps
    if last is None or steps.last_time_ns is None or not pace_s or as_of_ns is None:
        return None
    expected = last + int(max(0.0, (as_of_ns - steps.last_time_ns) / NS_PER_S / pace_s))
    return min(expected, max(last, last + total - measured.steps_done)) if total else expected


def _steps_this_run(story: Story, first: int, last: int) -> int:
    """How many steps the newest attempt has completed; a progress line every 100 steps counts for 100 steps."""
    if first == 0 and story.progress_rules & BARS:
        return last
    before_first = 1 if _is_zero_based(story) else min(story.steps.stride or 1, max(first, 1))
    return last - first + before_first


def _is_zero_based(story: Story) -> bool:
    """Whether the framework calls its first step 0."""
    return bool(story.progress_rules & ZERO_BASED)


def _total_steps(story: Story) -> int | None:
    """How many steps the job should complete, from its progress lines or configuration; None if unknown."""
    stated = (story.fact(rule, "steps_total") for rule in TOTALS)
    of_lines = story.steps.total if story.steps.is_total_of_job else None
    return of_lines or next(filter(None, map(whole, stated)), None)


def _checkpoint_period(story: Story) -> int | None:
    """Steps between two checkpoints; None if the log shows no checkpoints."""
    switches = (
        story.fact("job.passthrough_args", "enable_checkpointing"),
        story.fact("job.enable_checkpointing", "enable_checkpointing"),
    )
    switch = next((text.lower() for text in switches if text), "")
    stated = story.fact("job.checkpoint_period", "checkpoint_period") or story.fact(
        "job.passthrough_args", "checkpoint_period"
    )
    if switch == "false":
        return None
    if stated.isdigit():
        return int(stated) or None
    return DEFAULT_CHECKPOINT_PERIOD if switch == "true" else None


def _last_checkpoint(story: Story, last: int, period: int | None) -> int | None:
    """The newest periodic checkpoint at or before the last step. That of step 0, where a run starts, never counts.

    A checkpoint that the log reports as saved precedes one expected from the period.
    """
    stated = [int(text) for text in (story.fact(rule, "step_saved") for rule in _SAVED) if text.isdigit()]
    if saved := [step for step in stated if 0 < step <= last]:
        return max(saved)
    return last - last % period if period and last >= period else None


def _start(story: Story, first: int) -> tuple[str, int | None]:
    """`fresh`, or `restored` with the step of the checkpoint; `unknown` if neither lines nor numbers show it."""
    restored, is_zero_based = story.fact("job.restored", "step_restored"), _is_zero_based(story)
    if restored.isdigit():
        return "restored", int(restored)
    if "job.fresh_start" in story.facts or first <= (0 if is_zero_based else 1):
        return "fresh", None
    if is_zero_based or story.steps.stride == 1:
        return "restored", first - 1
    return ("fresh", None) if story.steps.stride == first else ("unknown", None)
