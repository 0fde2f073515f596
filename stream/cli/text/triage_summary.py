"""A triage report on one screen: the job's state, then its incident as everywhere, or what was found instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from epicenter.ingest.parse.prefix import peel
from epicenter.rules.model.job_names import job_in_words
from epicenter.rules.model.signals import UNNAMED
from epicenter.rules.triage.attempts import attempts_text
from epicenter.rules.triage.document import Status, Triage
from epicenter.sinks.text.humanize import count, date_and_clock
from epicenter.stream.cli.text.layout import Line, heading, unit, with_commands
from epicenter.stream.cli.text.summary import MAX_PROOF_ROWS, MAX_PROOFS, MAX_STEPS, incident_summary
from epicenter.stream.cli.text.terminal import safe
from epicenter.stream.cli.text.triage import MAX_SUMMARY_LENGTH, duration

MAX_CHECKS: Final = 3
MAX_OTHERS: Final = 5
MAX_UNNAMED: Final = 3
_STATES: Final = {Status.NO_JOB: "no job in this log", Status.UNKNOWN_DEATH: "ended, and no line tells why"}


def triage_summary(report: Triage) -> Iterator[Line]:
    """A report on one screen; `--full` shows the rest."""
    facts = (_state(report), report.stage, *_progress(report))
    yield Line(f"{safe(_name(report))}  ", " · ".join(unit(safe(fact)) for fact in facts if fact), left_style="bold")
    if report.incident:
        yield Line("", "")
        yield from incident_summary(report.incident)
    else:
        yield from _without_incident(report)
    yield from _other_incidents(report)
    yield from _unnamed(report)
    if report.incident and report.failed_attempts:
        yield from heading("Before")
        for sentence in attempts_text(report.failed_attempts):
            yield Line("  - ", safe(sentence))
    yield from _checks(report)
    for fault in report.faults if report.incident else ():
        yield Line("  ", safe(fault))
    if report.dead:
        yield Line("  ", f"{count(report.dead, 'record')} could not be processed: epicenter match says why")


def _name(report: Triage) -> str:
    if report.job:
        return f"Job {report.job}"
    is_of_many_files = len(report.files) > 1
    return (job_in_words(report.name) if is_of_many_files else "") or PurePath(report.path).name or report.path


def _state(report: Triage) -> str:
    if report.status is Status.UNKNOWN_DEATH and report.faults:
        return "the end of its log can't be read"
    if report.status is Status.NO_JOB and report.progress.last_step is not None:
        return "neither the start nor the end of a job"
    if report.status is Status.UNKNOWN_DEATH and report.primary == UNNAMED:
        return "ended, after a line that no rule names"
    return _STATES.get(report.status, report.status)


def _progress(report: Triage) -> Iterator[str]:
    progress = report.progress
    about = "about " if progress.is_rounded else ""
    if progress.last_step is None:
        if progress.bar_step is not None and report.status is not Status.COMPLETED:
            yield f"a bar without a name at {about}{progress.bar_step} of {progress.bar_total}"
        return
    yield f"step {about}{progress.last_step}" + (f" of {progress.total_steps}" if progress.total_steps else "")
    if progress.steps_lost and report.status not in (Status.RUNNING, Status.NO_JOB) and not report.faults:
        lost = count(progress.steps_lost, "step")
        yield f"{lost} lost" + (f" ({duration(progress.time_lost_s)})" if progress.time_lost_s else "")


def _without_incident(report: Triage) -> Iterator[Line]:
    yield Line("  ", safe(report.summary, MAX_SUMMARY_LENGTH))
    if report.next_steps:
        yield from heading("What to do")
    for number, step in enumerate(report.next_steps[:MAX_STEPS], 1):
        yield Line(f"  {number}. ", with_commands(safe(step)))
    proof = report.evidence[:MAX_PROOFS] if report.primary else ()
    if proof:
        yield from heading("Proof")
    for line in proof:
        yield Line(f"  line {line.line} ", safe(peel(line.text.split("\n")[0]).body), max_rows=MAX_PROOF_ROWS)


def _other_incidents(report: Triage) -> Iterator[Line]:
    others = report.other_incidents
    if others:
        yield from heading("Also found")
    for other in others[:MAX_OTHERS]:
        when = f", {date_and_clock(other.time)} UTC" if other.time else ""
        yield Line("  - ", safe(f"{other.title} ({other.failure_class}){when}"))
    if others[MAX_OTHERS:]:
        yield Line("  ", f"and {count(len(others) - MAX_OTHERS, 'more incident')}: epicenter replay shows all")


def _unnamed(report: Triage) -> Iterator[Line]:
    proven = {line.text for line in report.evidence} if report.primary == UNNAMED else set()
    messages = [message for message in report.unnamed if message.text not in proven]
    if messages:
        yield from heading("No rule names")
    for message in messages[:MAX_UNNAMED]:
        facts = [f"{message.count} times"] if message.count > 1 else []
        facts += map(safe, message.unusual)
        times = f" ({', '.join(facts)})" if facts else ""
        text = safe(peel(message.text.split("\n")[0]).body)
        yield Line(f"  line {message.first_line}{times} ", text, max_rows=MAX_PROOF_ROWS)


def _checks(report: Triage) -> Iterator[Line]:
    if report.checks:
        yield from heading("Checked")
    for check in report.checks[:MAX_CHECKS]:
        yield Line("  - ", safe(f"{check.question} {check.answer}"))
