"""Whether a job completed, failed, was cancelled, runs, hangs, or died without a word; never from a file's mtime."""

from __future__ import annotations

from typing import Final

from rules.model import NS_PER_S
from rules.triage.projection import steps_done, total_steps
from rules.triage.story import Story

CANCELLED_CODES: Final = ("130", "143")
STALL_STEPS: Final = 10
STALL_FLOOR_S: Final = 900
RUNNING_STATES: Final = ("RUNNING", "COMPLETING", "R", "CG")
_CANCELLED_STATES: Final = ("CANCELLED", "PREEMPTED", "REVOKED")
_FAILED_STATES: Final = ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")
_CANCELLING: Final = ("cancelled", "sigterm-cancelled", "slurm-cancelled", "slurm-preempted")


def decide(story: Story, now_ns: int | None, job_state: str) -> str:
    """The status of the job. `job_state` is what the scheduler says of it now (Slurm's words), empty when unknown."""
    state = job_state.upper().split(" ")[0].rstrip("+")
    if told := _told(story):
        return told
    if state in RUNNING_STATES:
        return "hanging" if has_stalled(story, now_ns) else "running"
    if state == "COMPLETED":
        return "completed"
    if state in _CANCELLED_STATES:
        return "cancelled"
    if state in _FAILED_STATES:
        return "failed" if has_failed(story) else "unknown-death"
    return _guess(story, now_ns, is_over=bool(state))


def has_stalled(story: Story, now_ns: int | None) -> bool:
    """Whether steps have stopped for much longer than they took, so that a checkpoint or evaluation is no excuse."""
    if now_ns is None or story.steps.last_time_ns is None:
        return False
    total = total_steps(story)
    is_done = total is not None and steps_done(story) >= total
    waited_s = (now_ns - story.steps.last_time_ns) / NS_PER_S
    return not is_done and waited_s >= max(STALL_FLOOR_S, STALL_STEPS * (story.steps.step_time_s or 0))


def has_failed(story: Story) -> bool:
    """Whether any line shows an error that is no mere ending."""
    return any(finding.severity in ("error", "critical") for finding in story.failures())


def _told(story: Story) -> str:
    """What the log's own summary says; empty when it has none."""
    if "job.summary" in story.facts or "job.status" in story.facts:
        code, status = story.fact("job.status", "exit_code"), story.fact("job.status", "status")
        if code in CANCELLED_CODES:
            return "cancelled"
        if status == "FAILED" or (code and code != "0"):
            return "failed"
    if (finished := story.facts.get("progress.finished")) and not _fails_after(
        story, finished.newest.event.position.offset
    ):
        return "completed"
    return ""


def _fails_after(story: Story, line: int) -> bool:
    return any(
        signal.position and signal.position.offset > line
        for finding in story.failures()
        for signal in finding.signals
        if finding.severity in ("error", "critical") and finding.role != "teardown"
    )


def _guess(story: Story, now_ns: int | None, is_over: bool) -> str:
    if has_failed(story):
        return "failed"
    if any(finding.failure_class in _CANCELLING for finding in story.failures()):
        return "cancelled"
    is_recent = story.steps.last_time_ns is not None and now_ns is not None and not has_stalled(story, now_ns)
    return "running" if is_recent and not is_over else "unknown-death"
