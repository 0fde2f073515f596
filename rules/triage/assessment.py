"""Story -> Assessment: how a job ended and why. `assess` has the order, `_status` the table of statuses.

`report.py` and what it calls only render an assessment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from epicenter.rules.cause.ranking import Candidate, confidence
from epicenter.rules.cause.reasons import Reason
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import RuleSpec
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.triage.document import ProgressReport, Status
from epicenter.rules.triage.primary import ranked
from epicenter.rules.triage.projection import project
from epicenter.rules.triage.run_facts import CANCELLED_CODES, RunFacts, facts_of, is_cancellation
from epicenter.rules.triage.story import ERRORS, Story

NEAR_NS: Final = 300 * NS_PER_S
"""Steps are printed late: a failure this shortly before the last one may still have stopped the job."""

LONG_HANG_S: Final = 1800
"""A hang of this length can itself stop heartbeats (maxtext-slurm, heartbeat post-mortem)."""

_ENDS_OF_HANGS: Final = {"heartbeat-timeout": LONG_HANG_S, "jax-coordination-error": LONG_HANG_S, "train-timeout": 900}
"""Classes that also end a stalled job, with the seconds that it must have been stalled."""

_RUNNING_STATES: Final = ("RUNNING", "COMPLETING", "R", "CG")
_CANCELLED_STATES: Final = ("CANCELLED", "PREEMPTED", "REVOKED")
_FAILED_STATES: Final = ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")

_RULE_OF_STATE: Final = {
    "OUT_OF_MEMORY": "slurm.oom",
    "TIMEOUT": "slurm.time_limit",
    "DEADLINE": "slurm.time_limit",
    "NODE_FAIL": "slurm.node_fail",
    "PREEMPTED": "slurm.preempted",
}
"""The rule for Slurm's state of an ended job, for a log without a reason."""

_RULE_OF_STATUS: Final = {Status.CANCELLED: "stage.cancelled", Status.FAILED: "stage.fail"}
"""The rule for a status, if only the log's summary shows how the job ended."""


class SilenceKind(StrEnum):
    """A silence that explains a job if no line does; the names are those of `detect` in a rule."""

    NO_PROGRESS = "no-progress"
    SILENT_END = "silent-end"


@dataclass(frozen=True)
class Circumstances:
    """What is known in addition to the log: the current time and the scheduler's state of the job; None is unknown."""

    now_ns: int | None = None
    job_state: str | None = None

    @property
    def state(self) -> str | None:
        """The state alone: `CANCELLED by 1000` and `COMPLETED+` without what follows the word."""
        words = (self.job_state or "").upper().split()
        return words[0].rstrip("+") or None if words else None


@dataclass(frozen=True)
class Assessment:
    """All conclusions about a job.

    `as_of_ns` is the time up to which progress is expected: now for a live job, the log's end for an ended one. `spec`
    is the rule that explains the job best, `primary` its class; None if there is nothing to explain. `cause` is the
    signal behind it: None if the evidence is a silence or the scheduler's state. `job_state` is that state, such as
    `CANCELLED`.
    """

    run: RunFacts
    status: Status
    as_of_ns: int | None
    job_state: str | None
    progress: ProgressReport
    candidates: Sequence[Candidate]
    spec: RuleSpec | None
    primary: str | None
    cause: Signal | None
    silence: SilenceKind | None
    confidence: float | None
    reasons: tuple[Reason, ...]

    @property
    def story(self) -> Story:
        """The content of the job's log."""
        return self.run.story

    @property
    def is_late_failure(self) -> bool:
        """Whether the job failed after it had completed all its steps."""
        return self.status is Status.FAILED and self.run.has_made_all_steps


def assess(story: Story, rules: RuleSet, circumstances: Circumstances) -> Assessment:
    """The assessment of a job; the same for the same log, time and job state."""
    run = facts_of(story)
    status = _status(run, circumstances)
    as_of_ns = circumstances.now_ns if status.is_live else story.newest_ns
    candidates = ranked(run, rules)
    by_state = _spec(rules, _RULE_OF_STATE.get(circumstances.state or "", ""))
    best = _best(run, status, candidates, is_explained_by_state=by_state is not None)
    silence = _silence(run, status, as_of_ns, best, by_state)
    cause = None if silence else best
    spec = _explanation(rules, status, silence, cause, by_state)
    return Assessment(
        run=run,
        status=status,
        as_of_ns=as_of_ns,
        job_state=circumstances.state,
        progress=project(run.progress, story.steps, as_of_ns, is_lost=status is not Status.COMPLETED),
        candidates=candidates,
        spec=spec,
        primary=cause.signal.failure_class if cause else spec.failure_class if spec else None,
        cause=cause.signal if cause else None,
        silence=silence,
        confidence=confidence([cause, *(other for other in candidates if other is not cause)]) if cause else None,
        reasons=tuple(cause.reasons) if cause else (),
    )


def _status(run: RunFacts, circumstances: Circumstances) -> Status:
    """The status of the first row that holds: the log's summary first, then the scheduler, then other lines."""
    story = run.story
    stated, code = story.fact("job.status", "status"), story.fact("job.status", "exit_code") or "0"
    state, has_stalled = circumstances.state, run.has_stalled(circumstances.now_ns)
    makes_steps = story.steps.last_time_ns is not None and circumstances.now_ns is not None and not has_stalled
    rows = (
        (code in CANCELLED_CODES, Status.CANCELLED),
        (stated == "FAILED" or code != "0", Status.FAILED),
        (stated == "SUCCESS" or run.is_finished, Status.COMPLETED),
        (state in _RUNNING_STATES and has_stalled, Status.HANGING),
        (state in _RUNNING_STATES, Status.RUNNING),
        (state == "COMPLETED", Status.COMPLETED),
        (state in _CANCELLED_STATES, Status.CANCELLED),
        (state in _FAILED_STATES and not run.is_ended_by_failure, Status.UNKNOWN_DEATH),
        (run.is_ended_by_failure, Status.FAILED),
        (run.is_ended_from_outside, Status.CANCELLED),
        (makes_steps and not state, Status.RUNNING),
    )
    return next((status for holds, status in rows if holds), Status.UNKNOWN_DEATH)


def _best(
    run: RunFacts, status: Status, candidates: Sequence[Candidate], is_explained_by_state: bool
) -> Candidate | None:
    """The failure behind the status; None for a healthy job, or if the scheduler's state explains more."""
    if not candidates or status is Status.COMPLETED:
        return None
    best = candidates[0]
    is_harmless_yet = best.signal.signal_id in run.outlived or best.signal.severity not in ERRORS
    if status is Status.RUNNING and (is_harmless_yet or not run.signals):
        return None
    if not is_cancellation(best.signal.failure_class):
        return best
    if is_explained_by_state:
        return None
    return next((found for found in candidates if found.signal.failure_class == "cancelled"), best)


def _silence(
    run: RunFacts, status: Status, as_of_ns: int | None, best: Candidate | None, by_state: RuleSpec | None
) -> SilenceKind | None:
    """The silence that explains the job: a stop without a failure, or an end without any explanation."""
    if _is_hang(run, status, as_of_ns, best.signal if best else None):
        return SilenceKind.NO_PROGRESS
    is_unexplained = status is Status.UNKNOWN_DEATH and best is None and by_state is None
    return SilenceKind.SILENT_END if is_unexplained and (run.is_job or not run.story.lines) else None


def _is_hang(run: RunFacts, status: Status, as_of_ns: int | None, cause: Signal | None) -> bool:
    """Whether the job stalled, and no failure at that time explains it. A hung job is often cancelled later."""
    if status is Status.HANGING or (status is Status.CANCELLED and run.has_stalled(as_of_ns)):
        return cause is None or is_cancellation(cause.failure_class) or not _is_near_the_stop(run.story, cause)
    if cause is None or status is not Status.FAILED or run.story.steps.last is None:
        return False
    stalled_s = _ENDS_OF_HANGS.get(vocabulary().parent(cause.failure_class) or cause.failure_class)
    return stalled_s is not None and run.has_stalled(run.story.time_of(cause) or run.story.newest_ns, stalled_s)


def _is_near_the_stop(story: Story, signal: Signal) -> bool:
    """Whether it occurred when steps stopped, or later: only then can it be the reason."""
    steps, time_ns = story.steps, story.time_of(signal)
    if steps.last is None or story.is_after(steps.last_line, signal.position):
        return True
    return steps.last_time_ns is not None and time_ns is not None and time_ns >= steps.last_time_ns - NEAR_NS


def _explanation(
    rules: RuleSet, status: Status, silence: SilenceKind | None, cause: Candidate | None, by_state: RuleSpec | None
) -> RuleSpec | None:
    """The rule that explains what happened: of the silence or the line, else of the scheduler's state or the status."""
    if silence:
        return next((rule.spec for rule in rules.rules if rule.spec.detect == silence), None)
    if cause:
        return rules.by_id[cause.signal.rule].spec
    return None if status.is_well else by_state or _spec(rules, _RULE_OF_STATUS.get(status, ""))


def _spec(rules: RuleSet, rule_id: str) -> RuleSpec | None:
    rule = rules.by_id.get(rule_id)
    return rule.spec if rule else None
