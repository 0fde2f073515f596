"""Whether a job completed, failed, was cancelled, runs, hangs, or died without a word; never from a file's mtime."""

from __future__ import annotations

from typing import Final

from rules.model import NS_PER_S, Signal
from rules.triage.projection import has_made_all_steps
from rules.triage.story import Finding, Story
from rules.vocabulary import vocabulary

CANCELLED_CODES: Final = ("130", "143")
STALL_STEPS: Final = 10
STALL_FLOOR_S: Final = 900
"""A checkpoint, an evaluation or a compilation may keep a healthy job busy for so long."""

START_UP_S: Final = 7200
"""So long image, restore and first compilation may take before a job without any step counts as standing still."""

RUNNING_STATES: Final = ("RUNNING", "COMPLETING", "R", "CG")
_CANCELLED_STATES: Final = ("CANCELLED", "PREEMPTED", "REVOKED")
_FAILED_STATES: Final = ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")


def plain_state(job_state: str) -> str:
    """`CANCELLED by 1000` and `COMPLETED+` without what follows the word."""
    return (job_state.upper().split() or [""])[0].rstrip("+")


def decide(story: Story, now_ns: int | None, job_state: str) -> str:
    """The status of the job. `job_state` is what the scheduler says of it now (Slurm's words), empty when unknown."""
    state = plain_state(job_state)
    if told := _told(story):
        return told
    if state in RUNNING_STATES:
        return "hanging" if has_stalled(story, now_ns) else "running"
    if state == "COMPLETED":
        return "completed"
    if state in _CANCELLED_STATES:
        return "cancelled"
    if state in _FAILED_STATES:
        return "failed" if ending_failures(story) else "unknown-death"
    return _guess(story, now_ns, is_over=bool(state))


def has_stalled(story: Story, as_of_ns: int | None, floor_s: int = STALL_FLOOR_S) -> bool:
    """Whether steps had stopped by then for much longer than they took, so that a checkpoint is no excuse."""
    steps = story.steps
    if as_of_ns is None or has_made_all_steps(story):
        return False
    if steps.last is None:
        begun_ns = story.first_ns if is_job_log(story) else None
        return begun_ns is not None and (as_of_ns - begun_ns) / NS_PER_S >= START_UP_S
    if steps.last_time_ns is None:
        return False
    pace_s = (steps.step_time_s or 0) * (steps.stride or 1)
    return (as_of_ns - steps.last_time_ns) / NS_PER_S >= max(floor_s, STALL_STEPS * pace_s)


def is_job_log(story: Story) -> bool:
    """Whether the log shows a job at work, so that its end without a word is an event."""
    return story.steps.last is not None or bool(story.facts) or bool(story.node_exits)


def is_cancellation(failure_class: str) -> bool:
    """Whether the class only says that somebody ended the job."""
    return "cancelled" in (failure_class, vocabulary().parent(failure_class))


def ending_failures(story: Story) -> list[Finding]:
    """Errors that the job did not simply go on after: steps, if there are any, ended before them."""
    return [
        finding
        for finding in story.failures()
        if finding.severity in ("error", "critical")
        and any(not outlived(story, signal) for signal in finding.signals)
        and not is_cancellation(finding.failure_class)
    ]


def outlived(story: Story, signal: Signal) -> bool:
    """Whether the job made many more steps after this line, so that it did not end the job at once."""
    at, last = story.step_at.get(signal.signal_id), story.steps.last
    return (
        story.is_in_log(signal.position)
        and last is not None
        and last - (at if at is not None else story.steps.first or 0) >= STALL_STEPS
    )


def _told(story: Story) -> str:
    """What the log's own summary or last words say; empty when it has none."""
    code, status = story.fact("job.status", "exit_code"), story.fact("job.status", "status")
    if code in CANCELLED_CODES:
        return "cancelled"
    if status == "FAILED" or (code and code != "0"):
        return "failed"
    if status == "SUCCESS":
        return "completed"
    finished = story.facts.get("progress.finished")
    line = finished.newest.event.position.offset if finished else story.steps.last_line
    is_done = finished is not None or has_made_all_steps(story)
    return "completed" if is_done and not _fails_after(story, line) else ""


def _fails_after(story: Story, line: int) -> bool:
    return any(
        story.is_after(line, signal.position)
        for finding in story.failures()
        for signal in finding.signals
        if finding.severity in ("error", "critical") and finding.role != "teardown"
    )


def _guess(story: Story, now_ns: int | None, is_over: bool) -> str:
    is_recent = story.steps.last_time_ns is not None and now_ns is not None and not has_stalled(story, now_ns)
    if ending_failures(story):
        return "failed"
    codes = {exit_.code for exit_ in story.node_exits.values()}
    if codes and codes <= set(CANCELLED_CODES):
        return "cancelled"
    if any(is_cancellation(finding.failure_class) and finding.signals for finding in story.failures()):
        return "cancelled"
    return "running" if is_recent and not is_over else "unknown-death"
