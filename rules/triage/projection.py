"""How far the run came, what it lost, and where it should be by now."""

from __future__ import annotations

from typing import Final

from rules.model import NS_PER_S
from rules.times import iso_from_ns
from rules.triage.document import ProgressReport
from rules.triage.story import Story

DEFAULT_CHECKPOINT_PERIOD: Final = 200
"""MaxText's own, when checkpoints are on and no period is stated."""

ZERO_BASED: Final = {"progress.maxtext", "progress.nanogpt", "progress.nemo"}
"""Progress rules of frameworks that count their steps from 0."""

_SAVED: Final = ("job.checkpoint_saved", "progress.checkpoint_saved")


def project(story: Story, as_of_ns: int | None, is_lost: bool = True) -> ProgressReport:
    """The progress of a run, as of a time; steps are numbered as the framework does.

    `is_lost`: steps after the last checkpoint are, or would be, lost; those of a job that completed are not.
    """
    steps = story.steps
    total, period, pace_s = total_steps(story), checkpoint_period(story), steps.step_time_s
    if steps.first is None or steps.last is None:
        return ProgressReport(total_steps=total, checkpoint_period=period, attempts=steps.attempts)
    start, restored = start_of(story)
    saved, lost, done = last_checkpoint(story), steps_lost(story) if is_lost else 0, steps_done(story)
    left = max(0, total - done) if total else None
    return ProgressReport(
        start=start,
        restored_step=restored,
        first_step=steps.first,
        last_step=steps.last,
        last_step_time=iso_from_ns(steps.last_time_ns) if steps.last_time_ns is not None else None,
        is_time_estimated=steps.is_time_estimated and steps.last_time_ns is not None,
        steps_this_run=steps_this_run(story),
        steps_done=done,
        total_steps=total,
        percent=round(100 * done / total, 1) if total else None,
        step_time_s=pace_s,
        expected_step_now=expected_step(story, as_of_ns),
        checkpoint_period=period,
        last_checkpoint_step=saved,
        steps_lost=lost,
        time_lost_s=round(lost * pace_s, 1) if pace_s else None,
        time_left_s=round(left * pace_s, 1) if pace_s and left is not None else None,
        attempts=steps.attempts,
    )


def expected_step(story: Story, as_of_ns: int | None) -> int | None:
    """The step that the run would be at by then; None when the log does not say when and how fast steps were made."""
    steps = story.steps
    if steps.last is None or steps.last_time_ns is None or not steps.step_time_s or as_of_ns is None:
        return None
    ahead = max(0.0, (as_of_ns - steps.last_time_ns) / NS_PER_S / steps.step_time_s)
    expected, total = steps.last + int(ahead), total_steps(story)
    return min(expected, max(steps.last, steps.last + total - steps_done(story))) if total else expected


def steps_done(story: Story) -> int:
    """How many steps the job has made, those of earlier runs included."""
    return 0 if story.steps.last is None else story.steps.last + is_zero_based(story)


def steps_this_run(story: Story) -> int:
    """How many steps the newest attempt has made; a progress line each 100 steps stands for 100 steps."""
    steps = story.steps
    if steps.first is None or steps.last is None:
        return 0
    before_first = 1 if is_zero_based(story) else min(steps.stride or 1, max(steps.first, 1))
    return steps.last - steps.first + before_first


def has_made_all_steps(story: Story) -> bool:
    """Whether the last step that the job was to make was logged."""
    total, steps = total_steps(story), story.steps
    is_whole = steps.knows_epochs or not steps.counts_by_epoch
    return bool(total) and is_whole and steps_done(story) >= (total or 0)


def is_zero_based(story: Story) -> bool:
    """Whether the framework calls its first step 0."""
    return bool(story.progress_rules & ZERO_BASED)


def total_steps(story: Story) -> int | None:
    """How many steps the job was to make, from its progress lines or its configuration; None when it does not say."""
    stated = story.fact("job.passthrough_args", "steps_total") or story.fact("job.steps", "steps_total")
    return story.steps.total or (int(stated) or None if stated.isdigit() else None)


def checkpoint_period(story: Story) -> int | None:
    """Steps between two checkpoints; None when none are made as far as the log says."""
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


def last_checkpoint(story: Story) -> int | None:
    """The newest periodic checkpoint at or before the last step. That of step 0 is where a run starts: it never counts.

    What the log says was saved goes before what the period lets expect.
    """
    last, period = story.steps.last, checkpoint_period(story)
    saved = [int(text) for text in (story.fact(rule, "step_saved") for rule in _SAVED) if text.isdigit()]
    saved = [step for step in saved if 0 < step <= (last or 0)]
    if saved:
        return max(saved)
    if not period or last is None or last < period:
        return None
    return last - last % period


def steps_lost(story: Story) -> int:
    """Steps that have to be made again: those after the newest checkpoint, or after the one this run began from."""
    last, restored = story.steps.last, start_of(story)[1]
    if last is None:
        return 0
    kept = [step for step in (last_checkpoint(story), restored) if step is not None]
    return max(0, last - max(kept)) if kept else steps_this_run(story)


def start_of(story: Story) -> tuple[str, int | None]:
    """`fresh`, or `restored` with the step of the checkpoint; `unknown` when neither lines nor numbers tell."""
    first, restored = story.steps.first, story.fact("job.restored", "step_restored")
    if restored.isdigit():
        return "restored", int(restored)
    if first is None:
        return "unknown", None
    if "job.fresh_start" in story.facts or first <= (0 if is_zero_based(story) else 1):
        return "fresh", None
    if is_zero_based(story) or story.steps.stride == 1:
        return "restored", first - 1
    return ("fresh", None) if story.steps.stride == first else ("unknown", None)
