"""What became of a job and why: its status, and the rule that explains it best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rules.cause import Candidate, confidence
from rules.model import Signal
from rules.reason import Reason
from rules.ruleset import RuleSet
from rules.spec import RuleSpec
from rules.triage.primary import is_near_the_stop, ranked
from rules.triage.status import decide, has_stalled, is_cancellation, is_job_log, outlived, plain_state
from rules.triage.story import Story
from rules.vocabulary import vocabulary

LONG_HANG_S: Final = 1800
"""A hang that lasts so long can itself stop heartbeats (maxtext-slurm, heartbeat post-mortem)."""

_ENDS_OF_HANGS: Final = {"heartbeat-timeout": LONG_HANG_S, "jax-coordination-error": LONG_HANG_S, "train-timeout": 900}
"""Classes that also end a job that stands still, with the seconds that it must have stood."""

_RULE_OF_STATE: Final = {
    "OUT_OF_MEMORY": "slurm.oom",
    "TIMEOUT": "slurm.time_limit",
    "DEADLINE": "slurm.time_limit",
    "NODE_FAIL": "slurm.node_fail",
    "PREEMPTED": "slurm.preempted",
}
"""The rule that says what Slurm's word for a job's end means, for a log that shows no reason."""

_RULE_OF_STATUS: Final = {"cancelled": "stage.cancelled", "failed": "stage.fail"}
"""What is left to say when only the log's summary tells how the job ended."""


@dataclass(frozen=True)
class Asked:
    """What is known besides the log: the time it is, and what the scheduler says of the job (empty: unknown)."""

    now_ns: int | None = None
    job_state: str = ""


@dataclass(frozen=True)
class Verdict:
    """The status of a job and what explains it. `cause` is None when no line does, but a silence or the scheduler.

    `as_of_ns` is the time that the progress is held against: now for a living job, the log's end for a dead one.
    """

    status: str
    as_of_ns: int | None = None
    spec: RuleSpec | None = None
    primary: str | None = None
    cause: Signal | None = None
    confidence: float | None = None
    reasons: tuple[Reason, ...] = ()
    candidates: Sequence[Candidate] = ()


def judge(story: Story, rules: RuleSet, asked: Asked) -> Verdict:
    """The verdict; the same for the same log, time and job state."""
    status = decide(story, asked.now_ns, asked.job_state)
    as_of_ns = asked.now_ns if status in ("running", "hanging") else story.newest_ns
    candidates = ranked(story, rules)
    best = _underlying(story, status, candidates)
    if is_hang(story, status, as_of_ns, best.signal if best else None):
        spec = _silence(rules, "no-progress")
    elif best and not (is_cancellation(best.signal.failure_class) and _by_scheduler(rules, asked.job_state)):
        return _from_line(status, as_of_ns, rules, best, candidates)
    else:
        spec = _from_outside(story, rules, status, asked.job_state)
    return Verdict(status, as_of_ns, spec, spec.failure_class if spec else None, candidates=candidates)


def is_hang(story: Story, status: str, as_of_ns: int | None, cause: Signal | None) -> bool:
    """Whether the job stood still, and no failure at that time explains it. A hung job is often cancelled later."""
    if status == "hanging" or (status == "cancelled" and has_stalled(story, as_of_ns)):
        return cause is None or is_cancellation(cause.failure_class) or not is_near_the_stop(story, cause)
    stood_s = _ENDS_OF_HANGS.get(vocabulary().parent(cause.failure_class) or cause.failure_class) if cause else None
    if cause is None or stood_s is None or status != "failed" or story.steps.last is None:
        return False
    return has_stalled(story, story.time_of(cause) or story.newest_ns, stood_s)


def _underlying(story: Story, status: str, candidates: Sequence[Candidate]) -> Candidate | None:
    """The failure that the status is about; none for a job that is well."""
    if status == "completed" or not candidates:
        return None
    best = candidates[0]
    is_harmless_yet = outlived(story, best.signal) or best.signal.severity not in ("error", "critical")
    if status == "running" and (is_harmless_yet or not any(story.signals())):
        return None
    if is_cancellation(best.signal.failure_class):
        return next((one for one in candidates if one.signal.failure_class == "cancelled"), best)
    return best


def _from_line(
    status: str, as_of_ns: int | None, rules: RuleSet, best: Candidate, candidates: Sequence[Candidate]
) -> Verdict:
    return Verdict(
        status=status,
        as_of_ns=as_of_ns,
        spec=rules.by_id[best.signal.rule].spec,
        primary=best.signal.failure_class,
        cause=best.signal,
        confidence=confidence([best, *(one for one in candidates if one is not best)]),
        reasons=tuple(best.reasons),
        candidates=candidates,
    )


def _from_outside(story: Story, rules: RuleSet, status: str, job_state: str) -> RuleSpec | None:
    """What explains the end of a job whose log names no failure: the scheduler's word, else the silence itself."""
    if status in ("completed", "running"):
        return None
    if spec := _by_scheduler(rules, job_state):
        return spec
    if rule := rules.by_id.get(_RULE_OF_STATUS.get(status, "")):
        return rule.spec
    is_end_of_a_job = status == "unknown-death" and (is_job_log(story) or not story.lines)
    return _silence(rules, "silent-end") if is_end_of_a_job else None


def _silence(rules: RuleSet, detect: str) -> RuleSpec | None:
    return next((rule.spec for rule in rules.rules if rule.spec.detect == detect), None)


def _by_scheduler(rules: RuleSet, job_state: str) -> RuleSpec | None:
    rule = rules.by_id.get(_RULE_OF_STATE.get(plain_state(job_state), ""))
    return rule.spec if rule else None
