"""The state of a watched job: its phase, how it ended, and which of its ranks are not at its newest step."""

from __future__ import annotations

from typing import Final

from epicenter.rules.liveness.state import JobWatch, Member
from epicenter.rules.liveness.verdict import LAG_STEPS, NEVER_STARTED, REPORTS_TO_COUNT, SHIPPER_SILENT, recent_since_ns
from epicenter.rules.model.ledger import JobEnd, JobPhase, JobState
from epicenter.rules.model.signals import Signal

ADVANCING: Final = (JobPhase.IN_STEP, JobPhase.BEHIND)
OBSERVED: Final = (*ADVANCING, JobPhase.STALLED, JobPhase.LOGS_MISSING)
"""Phases of a job that was seen running."""

_END_OF_CLASS: Final = {
    "slurm-time-limit": JobEnd.TIME_LIMIT,
    "train-timeout": JobEnd.TIME_LIMIT,
    "slurm-preempted": JobEnd.PREEMPTED,
    "k8s-preempted": JobEnd.PREEMPTED,
    "k8s-evicted": JobEnd.EVICTED,
    "slurm-cancelled": JobEnd.CANCELLED,
    "cancelled": JobEnd.CANCELLED,
    "sigterm-cancelled": JobEnd.TERMINATED,
}
"""Classes that say something else than that the job failed."""

_VAGUENESS: Final = (JobEnd.UNKNOWN, JobEnd.TERMINATED, JobEnd.FAILED)
"""Ends that a later line may correct, the vaguest first."""


CANCELLATIONS: Final = (JobEnd.CANCELLED, JobEnd.TIME_LIMIT, JobEnd.PREEMPTED, JobEnd.EVICTED)
"""Ends by the scheduler, which then kills what still runs."""


def end_of(signal: Signal) -> JobEnd:
    """How the job ended according to a line that reports its end."""
    if signal.role == "finished":
        return JobEnd.COMPLETED
    return _END_OF_CLASS.get(signal.failure_class, JobEnd.FAILED)


def stronger_end(known: JobEnd, reported: JobEnd) -> JobEnd:
    """The one that says more: first what the job or its scheduler reported, then a failure."""
    is_better = known in _VAGUENESS and reported not in _VAGUENESS[: _VAGUENESS.index(known) + 1]
    return reported if is_better else known


def phase_of(watch: JobWatch) -> JobPhase:
    """The phase of the job, without a look at its ranks."""
    if watch.progress.has_ended:
        return JobPhase.ENDED
    if watch.verdict in (SHIPPER_SILENT, NEVER_STARTED):
        return JobPhase.LOGS_MISSING if watch.verdict == SHIPPER_SILENT else JobPhase.NEVER_STARTED
    if watch.progress.is_stalled:
        return JobPhase.STALLED
    if watch.progress.written_last_step < 0:
        return JobPhase.NO_STEP
    return JobPhase.BEHIND if watch.is_straggling else JobPhase.IN_STEP


def job_state(watch: JobWatch, now_ns: int) -> JobState:
    """The state of the job now."""
    progress, phase = watch.progress, phase_of(watch)
    behind, quiet = ((), ()) if phase is JobPhase.ENDED else _behind_and_quiet(watch)
    is_declared = phase in (JobPhase.STALLED, JobPhase.NEVER_STARTED, JobPhase.LOGS_MISSING)
    has_culprit = is_declared or phase is JobPhase.BEHIND
    return JobState(
        cluster=progress.cluster,
        job=progress.job,
        time_ns=now_ns,
        phase=JobPhase.BEHIND if phase is JobPhase.IN_STEP and behind else phase,
        since_ns=progress.last_step_ns or watch.placed_ns or watch.first_ns,
        attempt_ns=watch.attempt_ns,
        end=watch.end if phase is JobPhase.ENDED else JobEnd.UNKNOWN,
        verdict=watch.verdict if is_declared else "",
        node=watch.named_node if has_culprit else "",
        rank=watch.named_rank if has_culprit else None,
        text=watch.verdict_text if has_culprit or phase is JobPhase.ENDED else "",
        world_size=watch.world_size,
        behind=behind,
        quiet=quiet,
        lost_nodes=tuple(sorted(watch.lost_nodes)),
    )


def unreported_end(watch: JobWatch, now_ns: int) -> JobState:
    """The state of a job that is forgotten: nothing reported its end."""
    watch.progress.has_ended = True
    watch.end, watch.verdict_text = JobEnd.UNREPORTED, ""
    return job_state(watch, now_ns)


def _behind_and_quiet(watch: JobWatch) -> tuple[tuple[int, ...], tuple[int, ...]]:
    progress, since_ns = watch.progress, recent_since_ns(watch.progress)
    at_most = progress.written_last_step - LAG_STEPS * progress.usual_stride
    behind, quiet = [], []
    for rank, member in sorted(_newest_by_rank(watch).items()):
        if member.step_ns < since_ns:
            quiet.append(rank)
        elif member.step <= at_most and member.reports >= REPORTS_TO_COUNT:
            behind.append(rank)
    return tuple(behind), tuple(quiet)


def _newest_by_rank(watch: JobWatch) -> dict[int, Member]:
    newest: dict[int, Member] = {}
    for member in watch.members.values():
        if member.rank is not None and (member.rank not in newest or newest[member.rank].step_ns < member.step_ns):
            newest[member.rank] = member
    return newest
