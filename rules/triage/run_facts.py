"""The course of a job according to its log: determined once, before any conclusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.triage.document import ProgressReport
from epicenter.rules.triage.projection import measure
from epicenter.rules.triage.steps import Steps
from epicenter.rules.triage.story import Finding, Story

CANCELLED_CODES: Final = ("130", "143")
STALL_STEPS: Final = 10
STALL_FLOOR_S: Final = 900
"""A checkpoint, an evaluation or a compilation may keep a healthy job busy for this long."""

START_UP_S: Final = 7200
"""Image, restore and first compilation may take this long before a job without any step counts as stalled."""

HEARTBEAT: Final = "heartbeat-timeout"
HEARTBEAT_CLASSES: Final = (HEARTBEAT, "jax-coordination-error")


@dataclass(frozen=True)
class RunFacts:
    """The course of the newest attempt.

    `is_job`: the log shows a job at work, so its end without an explanation is an event. `outlived` are the ids of
    signals after which the job completed many more steps, so they did not end it at once. `deaths` are errors of tasks
    that were reported dead only later. `cancelled_at` is the first line that reports the job's cancellation.
    """

    story: Story
    progress: ProgressReport
    has_made_all_steps: bool
    is_job: bool
    failures: Sequence[Finding]
    outlived: frozenset[str]
    deaths: Sequence[Signal]
    cancelled_at: int | None
    is_finished: bool
    is_ended_by_failure: bool
    is_ended_from_outside: bool

    @property
    def signals(self) -> list[Signal]:
        """The stored signals of all failures of the newest attempt."""
        return [signal for finding in self.failures for signal in finding.signals]

    def has_stalled(self, at_ns: int | None, floor_s: int = STALL_FLOOR_S) -> bool:
        """Whether steps had stopped by then for so long that a checkpoint does not explain it."""
        steps, begun_ns = self.story.steps, self.story.first_ns if self.is_job else None
        since_ns = begun_ns if steps.last is None else steps.last_time_ns
        if at_ns is None or since_ns is None or self.has_made_all_steps:
            return False
        pace_s = (steps.step_time_s or 0) * (steps.stride or 1)
        patience_s = START_UP_S if steps.last is None else max(floor_s, STALL_STEPS * pace_s)
        return (at_ns - since_ns) / NS_PER_S >= patience_s


def facts_of(story: Story) -> RunFacts:
    """The facts of a story that was read to its end."""
    progress, failures = measure(story), story.failures()
    made_all, outlived = _has_made_all_steps(story.steps, progress), _outlived(story, failures)
    return RunFacts(
        story=story,
        progress=progress,
        has_made_all_steps=made_all,
        is_job=story.steps.last is not None or bool(story.facts) or bool(story.node_exits),
        failures=failures,
        outlived=outlived,
        deaths=_deaths(story, failures, outlived),
        cancelled_at=_cancelled_at(story, failures),
        is_finished=_is_finished(story, failures, made_all),
        is_ended_by_failure=_is_ended_by_failure(failures, outlived),
        is_ended_from_outside=_is_ended_from_outside(story, failures),
    )


def is_cancellation(failure_class: str) -> bool:
    """Whether the class means only that the job was cancelled."""
    return "cancelled" in (failure_class, vocabulary().parent(failure_class))


def _has_made_all_steps(steps: Steps, progress: ProgressReport) -> bool:
    """Whether the job's final step was logged."""
    total, is_whole = progress.total_steps, steps.has_epoch_total or not steps.counts_by_epoch
    return bool(total) and is_whole and progress.steps_done >= (total or 0)


def _outlived(story: Story, failures: Sequence[Finding]) -> frozenset[str]:
    stored = (
        signal for finding in failures for signal in (*finding.earlier, *finding.signals, *finding.by_rank.values())
    )
    first, last = story.steps.first or 0, story.steps.last or 0
    return frozenset(
        signal.signal_id
        for signal in stored
        if story.is_in_log(signal.position) and last - story.step_at.get(signal.signal_id, first) >= STALL_STEPS
    )


def _deaths(story: Story, failures: Sequence[Finding], outlived: frozenset[str]) -> Sequence[Signal]:
    """The failures of tasks before they were reported dead, except those that the job outlived."""
    heartbeat = story.findings.get(HEARTBEAT)
    return [
        signal
        for finding in (failures if heartbeat else ())
        if finding.failure_class not in HEARTBEAT_CLASSES and finding.is_error and finding.role != "teardown"
        for task, signal in sorted(finding.by_rank.items())
        if heartbeat and task in story.reported_dead
        if _is_before(signal, heartbeat.first) and signal.signal_id not in outlived
    ]


def _is_before(signal: Signal, reported: Signal) -> bool:
    if signal.position and reported.position and signal.position.source == reported.position.source:
        return signal.position.offset < reported.position.offset
    return signal.event_time_ns < reported.event_time_ns


def _cancelled_at(story: Story, failures: Sequence[Finding]) -> int | None:
    lines = [
        signal.position.offset
        for finding in failures
        if is_cancellation(finding.failure_class)
        for signal in finding.signals
        if signal.position and story.is_in_log(signal.position)
    ]
    return min(lines, default=None)


def _is_finished(story: Story, failures: Sequence[Finding], made_all: bool) -> bool:
    """Whether the program reported its end or completed its last step, and nothing failed after that."""
    finished = story.facts.get("progress.finished")
    line = finished.newest.event.position.offset if finished else story.steps.last_line
    later = (
        story.is_after(line, signal.position)
        for finding in failures
        if finding.is_error and finding.role != "teardown"
        for signal in finding.signals
    )
    return (finished is not None or made_all) and not any(later)


def _is_ended_by_failure(failures: Sequence[Finding], outlived: frozenset[str]) -> bool:
    """Whether there is an error that the job did not outlive."""
    return any(
        signal.signal_id not in outlived
        for finding in failures
        if finding.is_error and not is_cancellation(finding.failure_class)
        for signal in finding.signals
    )


def _is_ended_from_outside(story: Story, failures: Sequence[Finding]) -> bool:
    codes = {exit_.code for exit_ in story.node_exits.values()}
    is_stated = any(is_cancellation(finding.failure_class) and finding.signals for finding in failures)
    return is_stated or bool(codes and codes <= set(CANCELLED_CODES))
