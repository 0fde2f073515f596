"""The course of a job according to its log: determined once, before any conclusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.triage.document import ProgressReport
from epicenter.rules.triage.primary import RankedIncident, is_cancellation
from epicenter.rules.triage.projection import measure
from epicenter.rules.triage.steps import Steps
from epicenter.rules.triage.story import Finding, Story

CANCELLED_CODES: Final = ("130", "143")
STALL_STEPS: Final = 10
STALL_FLOOR_S: Final = 900
"""A checkpoint, an evaluation or a compilation may keep a healthy job busy for this long."""

STEPS_TO_KNOW_THE_PACE: Final = 10
"""A log with fewer step lines, or without times, may be a piece of a longer one if no line names job or launcher."""

HEARTBEAT: Final = "heartbeat-timeout"
HEARTBEAT_CLASSES: Final = (HEARTBEAT, "jax-coordination-error")


@dataclass(frozen=True)
class RunFacts:
    """The course of the newest attempt.

    `was_seen_running`: the log shows a job at work, so its end without an explanation is an event. `deaths` are errors
    of tasks that were reported dead only later.
    """

    story: Story
    progress: ProgressReport
    has_made_all_steps: bool
    was_seen_running: bool
    failures: Sequence[Finding]
    deaths: Sequence[Signal]
    is_finished: bool
    is_ended_by_failure: bool
    is_ended_from_outside: bool

    @property
    def patience_ns(self) -> int:
        """How long after a step the next one may take: a checkpoint, an evaluation, or ten steps."""
        pace_s = (self.story.steps.step_time_s or 0) * (self.story.steps.stride or 1)
        return round(max(STALL_FLOOR_S, STALL_STEPS * pace_s) * NS_PER_S)


def facts_of(story: Story, incidents: Sequence[RankedIncident]) -> RunFacts:
    """The facts of a story that was read to its end, with the incidents that are still open."""
    progress, failures = measure(story), story.failures()
    made_all = _has_made_all_steps(story.steps, progress)
    errors = [signal for found in incidents if found.is_open for signal in found.errors_of(story.jobs)]
    return RunFacts(
        story=story,
        progress=progress,
        has_made_all_steps=made_all,
        was_seen_running=_was_seen_running(story),
        failures=failures,
        deaths=_deaths(story, failures),
        is_finished=_is_finished(story, errors, made_all),
        is_ended_by_failure=bool(errors),
        is_ended_from_outside=_is_ended_from_outside(story, failures),
    )


def _was_seen_running(story: Story) -> bool:
    """Whether a job is named, its launcher's lines or an exit are there, or timed steps enough to know its pace."""
    is_launched = any(rule.startswith("job.") for rule in story.facts) or bool(story.node_exits)
    is_paced = story.newest_ns is not None and story.steps.lines >= STEPS_TO_KNOW_THE_PACE
    return bool(story.job) or is_launched or is_paced


def _has_made_all_steps(steps: Steps, progress: ProgressReport) -> bool:
    """Whether the job's final step was logged."""
    total = progress.total_steps
    return bool(total) and steps.is_total_of_job and progress.steps_done >= (total or 0)


def _deaths(story: Story, failures: Sequence[Finding]) -> Sequence[Signal]:
    """The failures of tasks before they were reported dead, except those that the job outlived."""
    heartbeat = story.findings.get(HEARTBEAT)
    return [
        signal
        for finding in (failures if heartbeat else ())
        if finding.failure_class not in HEARTBEAT_CLASSES and finding.is_error and finding.role != "teardown"
        for task, signal in sorted(finding.by_rank.items())
        if heartbeat and task in story.reported_dead
        if _is_before(signal, heartbeat.first) and not _is_outlived(story, signal)
    ]


def _is_outlived(story: Story, signal: Signal) -> bool:
    first, last = story.steps.first or 0, story.steps.last or 0
    return story.is_in_log(signal.position) and last - story.step_at.get(signal.signal_id, first) >= STALL_STEPS


def _is_before(signal: Signal, reported: Signal) -> bool:
    if signal.position and reported.position and signal.position.source == reported.position.source:
        return signal.position.offset < reported.position.offset
    return signal.event_time_ns < reported.event_time_ns


def _is_finished(story: Story, errors: Sequence[Signal], made_all: bool) -> bool:
    """Whether the program reported its end or completed its last step, and nothing failed after that."""
    if finished := story.facts.get("progress.finished"):
        event = finished.newest.event
        return not any(story.follows(signal, event.position, event.event_time_ns) for signal in errors)
    last = story.steps.last_position
    return made_all and not any(story.follows(signal, last, story.steps.last_time_ns) for signal in errors)


def _is_ended_from_outside(story: Story, failures: Sequence[Finding]) -> bool:
    codes = {exit_.code for exit_ in story.node_exits.values()}
    is_stated = any(is_cancellation(finding.failure_class) and finding.signals for finding in failures)
    return is_stated or bool(codes and codes <= set(CANCELLED_CODES))
