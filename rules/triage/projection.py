"""How far the run came, what it lost, and where it should be by now."""

from __future__ import annotations

from typing import Final

from rules.model import NS_PER_S
from rules.times import iso_from_ns
from rules.triage.document import ProgressReport
from rules.triage.story import Story

DEFAULT_CHECKPOINT_PERIOD: Final = 200
"""MaxText's own, when checkpoints are on and no period is stated."""

ZERO_BASED: Final = {"progress.maxtext", "progress.nanogpt"}
"""Progress rules of frameworks that count their steps from 0."""


def project(story: Story, now_ns: int | None) -> ProgressReport:
    """The progress of a run, as of `now_ns`; steps count from 0 where the framework's do."""
    steps = story.steps
    if steps.first is None or steps.last is None:
        return ProgressReport(total_steps=total_steps(story))
    total, period, pace_s = total_steps(story), checkpoint_period(story), steps.step_time_s
    start, restored = _start(story, steps.first)
    saved = last_checkpoint(story, period)
    lost = steps.last - saved if saved is not None else steps.last - steps.first + 1
    done = steps_done(story)
    left = max(0, total - done) if total else None
    return ProgressReport(
        start=start,
        restored_step=restored,
        first_step=steps.first,
        last_step=steps.last,
        last_step_time=iso_from_ns(steps.last_time_ns) if steps.last_time_ns is not None else None,
        steps_this_run=steps.last - steps.first + 1,
        total_steps=total,
        percent=round(100 * done / total, 1) if total else None,
        step_time_s=pace_s,
        expected_step_now=expected_step(story, now_ns),
        checkpoint_period=period,
        last_checkpoint_step=saved,
        steps_lost=lost,
        time_lost_s=round(lost * pace_s, 1) if pace_s else None,
        time_left_s=round(left * pace_s, 1) if pace_s and left is not None else None,
        attempts=steps.attempts,
    )


def expected_step(story: Story, now_ns: int | None) -> int | None:
    """The step that the run would be at by now; None when the log does not say when and how fast steps were made."""
    steps = story.steps
    if steps.last is None or steps.last_time_ns is None or not steps.step_time_s or now_ns is None:
        return None
    ahead = max(0.0, (now_ns - steps.last_time_ns) / NS_PER_S / steps.step_time_s)
    total = total_steps(story)
    expected = steps.last + int(ahead)
    return min(expected, steps.last + total - steps_done(story)) if total else expected


def steps_done(story: Story) -> int:
    """How many steps the job has made, those of earlier runs included."""
    return 0 if story.steps.last is None else story.steps.last + is_zero_based(story)


def is_zero_based(story: Story) -> bool:
    """Whether the framework calls its first step 0."""
    return bool(story.progress_rules & ZERO_BASED)


def total_steps(story: Story) -> int | None:
    """How many steps the job was to make, from its progress lines or its configuration."""
    stated = story.fact("job.passthrough_args", "steps_total") or story.fact("job.steps", "steps_total")
    return story.steps.total or (int(stated) if stated.isdigit() else None)


def checkpoint_period(story: Story) -> int | None:
    """Steps between two checkpoints; None when none are made as far as the log says."""
    stated = story.fact("job.checkpoint_period", "checkpoint_period")
    if stated.isdigit():
        return int(stated)
    switches = (
        story.fact("job.passthrough_args", "enable_checkpointing"),
        story.fact("job.enable_checkpointing", "enable_checkpointing"),
    )
    return DEFAULT_CHECKPOINT_PERIOD if "true" in (switch.lower() for switch in switches) else None


def last_checkpoint(story: Story, period: int | None) -> int | None:
    """The newest periodic checkpoint of this run. The one of step 0 is where a run starts, and does not count."""
    saved = story.fact("progress.checkpoint_saved", "step_saved")
    if saved.isdigit() and int(saved) > 0:
        return int(saved)
    last, first = story.steps.last, story.steps.first
    if not period or last is None or first is None or last < period:
        return None
    newest = last - last % period
    return newest if newest >= first else None


def _start(story: Story, first: int) -> tuple[str, int | None]:
    restored = story.fact("job.restored", "step_restored")
    if restored.isdigit():
        return "restored", int(restored)
    if "job.fresh_start" in story.facts or (first <= 1 and not is_zero_based(story)):
        return "fresh", None
    return ("restored", first - 1) if first > 0 else ("fresh", None)
