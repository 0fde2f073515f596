"""Story -> Assessment: how a job ended and why. `assess` has the order, `_status` the table of statuses.

`report.py` and what it calls only render an assessment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from epicenter.rules.cause.confidence import confidence, distinct, doubts_about
from epicenter.rules.cause.ranking import Candidate
from epicenter.rules.cause.reasons import Reason
from epicenter.rules.liveness.verdict import FINISHED
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import RuleSpec
from epicenter.rules.triage.document import ProgressReport, Status
from epicenter.rules.triage.primary import RankedIncident, decisive, is_cancellation, likeliest
from epicenter.rules.triage.projection import project
from epicenter.rules.triage.run_facts import CANCELLED_CODES, RunFacts, facts_of
from epicenter.rules.triage.story import Story
from epicenter.rules.triage.unnamed import new_at_the_end

STALLS: Final = ("hang", "straggler")
"""Classes of verdicts on a job whose processes live, but make no steps, or too slowly."""

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
    """Missing lines or steps that explain a job if no line does; the names are those of `detect` in a rule."""

    NO_PROGRESS = "no-progress"
    SILENT_END = "silent-end"


@dataclass(frozen=True)
class Circumstances:
    """What is known in addition to the log: the current time and the scheduler's state of the job; None is unknown."""

    now_ns: int | None = None
    job_state: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether the scheduler says that the job runs, so that more steps should follow."""
        return self.state in _RUNNING_STATES

    @property
    def state(self) -> str | None:
        """The state alone: `CANCELLED by 1000` and `COMPLETED+` without what follows the word."""
        words = (self.job_state or "").upper().split()
        return words[0].rstrip("+") or None if words else None


@dataclass(frozen=True)
class Assessment:
    """All conclusions about a job.

    `as_of_ns` is the time up to which progress is expected: now for a live job, the log's end for an ended one.
    `incident` is the engine's that explains the job, None if there is none. `spec` is the rule that explains it best,
    `primary` its class; None if there is nothing to explain. `cause` is the line behind it: None if the evidence is
    missing lines or the scheduler's state. `job_state` is that state, such as `CANCELLED`.
    """

    run: RunFacts
    status: Status
    as_of_ns: int | None
    job_state: str | None
    progress: ProgressReport
    incident: RankedIncident | None
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
    def is_stall(self) -> bool:
        """Whether the engine concluded from missing steps that the job stopped."""
        return self.silence is SilenceKind.NO_PROGRESS or bool(self.cause and self.cause.position is None)

    @property
    def is_late_failure(self) -> bool:
        """Whether the job failed after it had completed all its steps."""
        return self.status is Status.FAILED and self.run.has_made_all_steps


def assess(
    story: Story, incidents: Sequence[RankedIncident], rules: RuleSet, circumstances: Circumstances
) -> Assessment:
    """The assessment of a job with its incidents; the same for the same log, time and job state."""
    run, found = facts_of(story, incidents), decisive(incidents, story.jobs, story.steps.last is not None)
    status = _status(run, found, circumstances)
    as_of_ns = circumstances.now_ns if status.is_live else story.newest_ns
    incident, by_state = _behind(status, found), _by_state(rules, circumstances)
    candidates = _candidates(run, status, incident, rules) or ([] if by_state else _unnamed(run, status, rules))
    best = candidates[0] if candidates else None
    if best and by_state and is_cancellation(best.signal.failure_class):
        best = None
    silence = _silence(run, status, best, by_state)
    cause = None if silence else best
    spec = _explanation(rules, status, silence, cause, by_state)
    return Assessment(
        run=run,
        status=status,
        as_of_ns=as_of_ns,
        job_state=circumstances.state,
        progress=project(run.progress, story.steps, as_of_ns, is_lost=status is not Status.COMPLETED),
        incident=incident,
        candidates=candidates,
        spec=spec,
        primary=cause.signal.failure_class if cause else spec.failure_class if spec else None,
        cause=cause.signal if cause else None,
        silence=silence,
        confidence=_confidence(incident, candidates) if best else None,
        reasons=tuple(best.reasons) if best else (),
    )


def _confidence(incident: RankedIncident | None, candidates: Sequence[Candidate]) -> float:
    if incident:
        return incident.incident.root_cause.confidence
    answers = distinct(candidates)
    return confidence(answers, doubts_about(answers))


def _status(run: RunFacts, found: RankedIncident | None, circumstances: Circumstances) -> Status:
    """The status of the first row that holds: the log's summary first, then the scheduler, then other lines."""
    story, state = run.story, circumstances.state
    stated, code = story.fact("job.status", "status"), story.fact("job.status", "exit_code") or "0"
    verdict = found.cause.failure_class if found and found.cause.position is None else None
    rows = (
        (code in CANCELLED_CODES, Status.CANCELLED),
        (stated == "FAILED" or code != "0", Status.FAILED),
        (stated == "SUCCESS" or run.is_finished, Status.COMPLETED),
        (circumstances.is_running and (verdict in STALLS or _is_overdue(run, found, circumstances)), Status.HANGING),
        (circumstances.is_running, Status.RUNNING),
        (state == "COMPLETED", Status.COMPLETED),
        (state in _CANCELLED_STATES, Status.CANCELLED),
        (state in _FAILED_STATES and not run.is_ended_by_failure, Status.UNKNOWN_DEATH),
        (run.is_ended_by_failure, Status.FAILED),
        (run.is_ended_from_outside, Status.CANCELLED),
        (story.verdict == FINISHED, Status.COMPLETED),
        (verdict in STALLS, Status.HANGING),
        (not state and run.was_seen_running and _is_alive(run, circumstances), Status.RUNNING),
        (found is not None and run.was_seen_running and verdict != "unknown-death", Status.FAILED),
        (run.was_seen_running or verdict is not None, Status.UNKNOWN_DEATH),
    )
    return next((status for holds, status in rows if holds), Status.NO_JOB)


def _behind(status: Status, found: RankedIncident | None) -> RankedIncident | None:
    """The incident if it explains the status: a completed job needs none, a running one only one that is open."""
    explains = status is not Status.COMPLETED and (status is not Status.RUNNING or (found and found.is_open))
    return found if explains else None


def _is_overdue(run: RunFacts, found: RankedIncident | None, circumstances: Circumstances) -> bool:
    """Whether the job failed, and its next step is overdue."""
    return found is not None and run.story.steps.last is not None and not _is_alive(run, circumstances)


def _is_alive(run: RunFacts, circumstances: Circumstances) -> bool:
    """Whether the newest step is so recent that the next one is not overdue, or the job logged as long as others."""
    story = run.story
    waits_ns = [
        end_ns - last_ns
        for end_ns, last_ns in (
            (circumstances.now_ns, story.steps.last_time_ns),
            (story.others_newest_ns, story.own_newest_ns),
        )
        if end_ns is not None and last_ns is not None
    ]
    return any(wait_ns < run.patience_ns for wait_ns in waits_ns)


def _candidates(run: RunFacts, status: Status, incident: RankedIncident | None, rules: RuleSet) -> Sequence[Candidate]:
    """The signals of the incident; without one, the warnings of a job that is not well, or of a log without a job."""
    if incident:
        return incident.candidates
    if status.is_well:
        return []
    found = likeliest(run.story, [signal for finding in run.failures for signal in finding.signals], rules)
    is_cancelled = status is Status.CANCELLED
    return [warning for warning in found if not is_cancelled or is_cancellation(warning.signal.failure_class)]


def _unnamed(run: RunFacts, status: Status, rules: RuleSet) -> Sequence[Candidate]:
    """The line at the end of a failed job that no rule names; in a log without a job, those whose words say more."""
    if status is Status.NO_JOB:
        return likeliest(run.story, run.story.suggested(), rules)
    has_failed = status in (Status.FAILED, Status.UNKNOWN_DEATH)
    line = new_at_the_end(run.story) if has_failed else None
    return likeliest(run.story, [line], rules) if line else []


def _silence(run: RunFacts, status: Status, best: Candidate | None, by_state: RuleSpec | None) -> SilenceKind | None:
    """The missing lines or steps that explain the job; None if a line or the scheduler's state does."""
    if best:
        is_verdict = best.signal.position is None and best.signal.failure_class in STALLS
        return SilenceKind.NO_PROGRESS if is_verdict else None
    is_unexplained = status is Status.UNKNOWN_DEATH and by_state is None and not run.story.faults
    return SilenceKind.SILENT_END if is_unexplained else None


def _explanation(
    rules: RuleSet, status: Status, silence: SilenceKind | None, cause: Candidate | None, by_state: RuleSpec | None
) -> RuleSpec | None:
    """The rule that explains what happened: of the silence or the line, else of the scheduler's state or the status."""
    if silence:
        return next((rule.spec for rule in rules.rules if rule.spec.detect == silence), None)
    if cause:
        return _spec(rules, cause.signal.rule)
    return None if status.is_well else by_state or _spec(rules, _RULE_OF_STATUS.get(status, ""))


def _by_state(rules: RuleSet, circumstances: Circumstances) -> RuleSpec | None:
    return _spec(rules, _RULE_OF_STATE.get(circumstances.state or "", ""))


def _spec(rules: RuleSet, rule_id: str) -> RuleSpec | None:
    rule = rules.by_id.get(rule_id)
    return rule.spec if rule else None
