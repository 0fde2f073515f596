"""The state of a job in words: `Stalled`, `rank 48 on gpu-0007 stopped first`, `Ended: completed`."""

from __future__ import annotations

from typing import Final

from epicenter.rules.model.ledger import JobEnd, JobPhase

NOT_KNOWN: Final = "Not known"

_PHASES: Final[dict[str, str]] = {
    JobPhase.NO_STEP: "No step seen",
    JobPhase.IN_STEP: "In step",
    JobPhase.BEHIND: "Behind",
    JobPhase.STALLED: "Stalled",
    JobPhase.NEVER_STARTED: "Never started",
    JobPhase.LOGS_MISSING: "Logs missing",
    JobPhase.ENDED: "Ended",
}

_ENDS: Final[dict[str, str]] = {
    JobEnd.UNKNOWN: "Ended: how is not known",
    JobEnd.COMPLETED: "Ended: completed",
    JobEnd.FAILED: "Ended: failed",
    JobEnd.TERMINATED: "Ended: stopped by SIGTERM",
    JobEnd.CANCELLED: "Ended: cancelled",
    JobEnd.PREEMPTED: "Ended: preempted",
    JobEnd.EVICTED: "Ended: evicted",
    JobEnd.TIME_LIMIT: "Ended: time limit reached",
    JobEnd.UNREPORTED: "Ended: no line reports how",
}

_MEANINGS: Final[dict[str, str]] = {
    JobPhase.NO_STEP: "it logs, but no line has a step number",
    JobPhase.IN_STEP: "it advances",
    JobPhase.BEHIND: "it advances, with some ranks at an earlier step",
    JobPhase.STALLED: "its next step is overdue",
    JobPhase.NEVER_STARTED: "its first step is overdue",
    JobPhase.LOGS_MISSING: "no logs from the cluster: whether it advances is not known",
    JobPhase.ENDED: "",
}


def label(phase: str, end: str = "") -> str:
    """The state in a few words; a phase of a newer version, or none, is not known."""
    if phase == JobPhase.ENDED:
        return _ENDS.get(end, _ENDS[JobEnd.UNKNOWN])
    return _PHASES.get(phase, NOT_KNOWN)


def meaning(phase: str, node: str = "", rank: int | None = None) -> str:
    """What the state means, with who stopped first if a verdict names it; empty for a job that ended."""
    if not node and rank is None:
        return _MEANINGS.get(phase, "the store holds no state of this job")
    who = " on ".join(part for part in (f"rank {rank}" if rank is not None else "", node) if part)
    return f"{who} holds it back" if phase == JobPhase.BEHIND else f"{who} stopped first"
