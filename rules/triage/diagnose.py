"""The checklist for a hang, a silent death or a late failure, with the answers from the log."""

from __future__ import annotations

from typing import Final

from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.triage.assessment import Assessment
from epicenter.rules.triage.document import Check, Status
from epicenter.rules.triage.exits import exit_checks
from epicenter.rules.triage.heartbeat import heartbeat_checks, numbers
from epicenter.rules.triage.run_facts import HEARTBEAT
from epicenter.rules.triage.stage import marker_checks
from epicenter.rules.triage.story import Story

_STATES: Final = {
    "OUT_OF_MEMORY": "memory ran out",
    "PREEMPTED": "another job preempted it",
    "TIMEOUT": "it reached its time limit",
    "DEADLINE": "it reached its deadline",
    "NODE_FAIL": "a node failed",
    "CANCELLED": "it was cancelled",
}


def checks(assessment: Assessment) -> list[Check]:
    """The diagnosis that fits the job, question by question; exit codes always."""
    story, answers = assessment.story, list[Check]()
    if assessment.is_late_failure:
        answers.append(Check("Was the work done?", "yes: the last step was logged; the job failed during shutdown"))
    if assessment.status is Status.HANGING or assessment.is_stall:
        answers += hang_checks(assessment)
    if heartbeat := story.findings.get(HEARTBEAT):
        answers += heartbeat_checks(story, assessment.run, heartbeat)
    if assessment.status is Status.UNKNOWN_DEATH:
        answers += death_checks(story, assessment.job_state)
    if not assessment.status.is_well:
        answers += [*marker_checks(story), *_restart_checks(story)]
    return [*answers, *exit_checks(story, assessment.run.failures)]


def hang_checks(assessment: Assessment) -> list[Check]:
    """A hang is a gap in steps. Lines that are still written do not rule it out."""
    story = assessment.story
    errors = [finding.failure_class for finding in assessment.run.failures if finding.is_error]
    return [
        Check("How far behind is the job?", _gap(assessment)),
        Check("Are other lines still written?", _other_lines(story)),
        Check("Did all ranks stop together?", _who_stopped(story)),
        Check("Does the log show a failure?", ", ".join(errors) or "no: none before the stop"),
        Check("Did a process crash?", _cores(story)),
        Check("Would heartbeats detect it?", "no: in a hang every process is alive; leave heartbeat timeouts alone"),
    ]


def death_checks(story: Story, state: str | None) -> list[Check]:
    """The checklist for a job that ended without an explanation."""
    scheduler_state = (
        f"{state}: {_STATES.get(state, 'see the first cause in sacct')}" if state else "unknown: pass --job-state"
    )
    return [
        Check("Is there a trace of an out-of-memory kill?", _memory_kills(story)),
        _end_of_log(story),
        Check("What does the scheduler report?", scheduler_state),
        Check(
            "What does the kernel report?",
            "not in this log: run dmesg -T | grep -iE 'oom|killed process|xid' on each node",
        ),
        Check("What remains?", "not known from this log: no line tells why it ended"),
    ]


def _gap(assessment: Assessment) -> str:
    steps, expected, as_of_ns = assessment.story.steps, assessment.progress.expected_step_now, assessment.as_of_ns
    if steps.last is None:
        return "the job has completed no step: the first collective or the start-up hangs"
    if expected is None or steps.last_time_ns is None or as_of_ns is None:
        return f"the last step is {steps.last}; the log does not show when it was completed, or how fast steps were"
    about = "about " if steps.is_time_estimated else ""
    waited_s = max(0, as_of_ns - steps.last_time_ns) / NS_PER_S
    return (
        f"the last step is {steps.last}, at {about}{iso_from_ns(steps.last_time_ns)[:19]}Z; "
        f"{int(waited_s)} s later, {about}{expected} was expected"
    )


def _other_lines(story: Story) -> str:
    last_ns, newest_ns = story.steps.last_time_ns, story.newest_ns
    if last_ns is None or newest_ns is None:
        return "the log does not show the times"
    later_s = (newest_ns - last_ns) / NS_PER_S
    if later_s < 1:
        return "no: no line follows the last step, so check first whether the processes are alive"
    return f"yes, up to {later_s:.0f} s after the last step: processes are alive, but make no progress"


def _who_stopped(story: Story) -> str:
    steps = story.steps
    if behind := steps.ranks_behind:
        return f"no: rank {numbers(behind)} had not finished the last step, so look there first"
    if len(steps.newest_by_rank) > 1:
        count = len(steps.newest_by_rank)
        return f"yes: all {count} ranks that print steps stopped at the same step, so a collective hangs"
    return "unknown: only one stream prints steps; take the stacks of all ranks"


def _cores(story: Story) -> str:
    cores = [name for name in story.artifacts if "core" in name.rpartition("/")[2]]
    if cores:
        return f"perhaps: {', '.join(cores[:4])} next to the log"
    where = "no core file next to the log" if story.folder else "the job's folder is unknown"
    return f"{where}; a crash leaves one, a hang does not"


def _memory_kills(story: Story) -> str:
    kills = [
        name for name in story.findings if {name, vocabulary().parent(name)} & {"oom-host", "signal-kill", "oom-gpu"}
    ]
    return f"yes: {', '.join(kills)}" if kills else "none in this log"


def _end_of_log(story: Story) -> Check:
    question = "Is the log cut off?"
    if not story.tail:
        return Check(question, "unknown: the log comes from a pipe")
    if story.is_cut_off:
        return Check(question, "perhaps: its last line has no end", story.tail[-1])
    return Check(question, "no: its last line is complete", story.tail[-1])


def _restart_checks(story: Story) -> list[Check]:
    if story.steps.attempts < 2:
        return []
    return [Check("Was the job restarted?", f"yes: this log has {story.steps.attempts} attempts; this is the newest")]
