"""Story -> Triage: the whole report on one job's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from epicenter.rules.event_time.ordering import onset_order
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import known_iso
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.report.reason_text import cascade_text, reason_texts
from epicenter.rules.triage.advice import next_steps
from epicenter.rules.triage.assessment import Assessment, Circumstances, assess
from epicenter.rules.triage.attempts import attempts_text, failed_attempts
from epicenter.rules.triage.dashboards import dashboards
from epicenter.rules.triage.diagnose import checks
from epicenter.rules.triage.document import (
    EvidenceLine,
    FailedAttempt,
    FindingReport,
    OtherIncident,
    ProgressReport,
    Status,
    Triage,
    UnnamedReport,
)
from epicenter.rules.triage.primary import RankedIncident, is_cancellation
from epicenter.rules.triage.stage import stage
from epicenter.rules.triage.story import Finding, Story, UnnamedMessage
from epicenter.rules.triage.unnamed import rarest_first, unusual_texts

__all__ = ["Circumstances", "triage"]

MAX_SHOWN_EVIDENCE: Final = 12
MAX_SHOWN_OF_PRIMARY: Final = 3
MAX_EVIDENCE_LENGTH: Final = 4000
MAX_UNNAMED: Final = 20


def triage(story: Story, incidents: Sequence[RankedIncident], rules: RuleSet, circumstances: Circumstances) -> Triage:
    """The report on one job with its incidents; the same for the same log, time and job state."""
    assessment = assess(story, incidents, rules, circumstances)
    failed = tuple(failed_attempts(story, rules))
    name, shown = assessment.primary, {finding.failure_class for finding in assessment.run.failures}
    return Triage(
        path=story.path,
        status=assessment.status,
        primary=name,
        family=(vocabulary().parent(name) or name) if name else None,
        classes=tuple(sorted(shown | ({name} if name else set()))),
        stage=stage(story, name),
        summary=_summary(assessment, failed),
        evidence=_evidence(assessment),
        progress=assessment.progress,
        findings=tuple(_finding(finding, rules) for finding in story.findings.values()),
        next_steps=next_steps(assessment),
        action=assessment.spec.action if assessment.spec else "none",
        confidence=assessment.confidence,
        reasons=reason_texts(assessment.reasons),
        checks=tuple(checks(assessment)),
        cascade=_cascade(assessment),
        dashboards=dashboards(story, assessment.status),
        files=story.files,
        lines=story.lines,
        job=story.job,
        name=next(iter(story.jobs), ""),
        dead=story.dead,
        incident=assessment.incident.incident if assessment.incident else None,
        incidents=tuple(found.incident.incident_id for found in incidents),
        other_incidents=tuple(_other(found.incident) for found in incidents if found is not assessment.incident),
        failed_attempts=failed,
        faults=story.faults,
        unnamed=_unnamed(story),
    )


def _other(incident: Incident) -> OtherIncident:
    time = known_iso(incident.root_cause.event_time) or None
    return OtherIncident(incident.incident_id, incident.failure_class, incident.title, time)


_NO_FAILURE: Final = "The log shows no failure."
_NONE_NAMED: Final = "No rule names a failure in it; some lines look like one."
_NOTHING: Final = {
    Status.COMPLETED: "The job completed normally.",
    Status.RUNNING: "The job is running, and the log shows no failure.",
}


def _summary(assessment: Assessment, failed: Sequence[FailedAttempt]) -> str:
    story, status, progress = assessment.story, assessment.status, assessment.progress
    sentences = [f"{fault}." for fault in story.faults]
    sentences += [f"{assessment.incident.incident.title}."] if assessment.incident else []
    if status is Status.NO_JOB:
        sentences.append(_without_job(assessment))
    else:
        sentences.append(assessment.spec.meaning if assessment.spec else _NOTHING.get(status, _NO_FAILURE))
    if cause := assessment.cause:
        sentences.append(f"It is first seen {_place(story, cause)}{_more(_others(assessment))}.")
    if status is Status.CANCELLED and assessment.primary == "hang":
        sentences.append("The cancellation only ended a job that had already stalled.")
    if assessment.is_late_failure:
        sentences.append("All steps were completed by then: the job failed during shutdown.")
    elif progress.last_step is not None and status not in (Status.COMPLETED, Status.NO_JOB):
        about = "about " if progress.is_rounded else ""
        sentences.append(f"The last completed step is {about}{progress.last_step}{_of(progress)}.")
    elif progress.bar_step is not None and status is not Status.COMPLETED:
        about = "about " if progress.is_rounded else ""
        bar = f"A progress bar without a name got to {about}{progress.bar_step} of {progress.bar_total}"
        sentences.append(f"{bar}; no line says what it counts.")
    if status is Status.UNKNOWN_DEATH and story.newest_ns is None:
        sentences.append("No line has a time, so the log may also be of a job that still ran.")
    sentences += attempts_text(failed)
    return " ".join(sentences)


def _without_job(assessment: Assessment) -> str:
    progress = assessment.progress
    if assessment.spec:
        return f"There is no job in this log. {assessment.spec.meaning}"
    if progress.last_step is not None:
        steps = f"steps {progress.first_step} to {progress.last_step}"
        is_timed = assessment.story.newest_ns is not None
        return (
            f"The log shows {steps}{'' if is_timed else ' without times'}, but neither the start nor the end of a job."
        )
    if assessment.story.unnamed:
        return f"There is no job in this log. {_NONE_NAMED}"
    return "There is no job in this log, and nothing was found."


def _others(assessment: Assessment) -> int:
    if assessment.incident:
        return assessment.incident.incident.signal_count - 1
    return sum(finding.count for finding in assessment.run.failures) - 1


def _more(others: int) -> str:
    if not others:
        return ""
    return f"; {others} more lines belong to it" if others > 1 else "; one more line belongs to it"


def _of(progress: ProgressReport) -> str:
    return f" of a job of {progress.total_steps}" if progress.total_steps else ""


def _place(story: Story, signal: Signal) -> str:
    node = signal.node or story.node_of(signal.rank)
    who = [f"on {node}"] if node else []
    who += [f"by rank {signal.rank}"] if signal.rank is not None else []
    who += [f"at line {signal.position.offset}"] if signal.position else []
    return ", ".join(who) or "here"


def _evidence(assessment: Assessment) -> tuple[EvidenceLine, ...]:
    """The cause's lines, then the first line of every other class; for a silence, the last lines before it."""
    story, cause, chosen = assessment.story, assessment.cause, list[Signal]()
    if cause:
        same = [candidate.signal for candidate in assessment.candidates if candidate.signal.position]
        of_class = [signal for signal in same if signal.failure_class == cause.failure_class and signal is not cause]
        chosen = [cause, *of_class][:MAX_SHOWN_OF_PRIMARY]
    own_class = cause.failure_class if cause else ""
    others = [signal for signal in _first_of_each_class(assessment) if signal.failure_class != own_class]
    lines = [_line(story, signal) for signal in [*chosen, *others]]
    if not cause and assessment.primary:
        shown = {line.line for line in lines}
        lines += [line for line in _last_lines(story, assessment.primary) if line.line not in shown]
        lines.sort(key=lambda line: (line.file, line.line))
    return tuple(lines[:MAX_SHOWN_EVIDENCE])


def _first_of_each_class(assessment: Assessment) -> list[Signal]:
    """The first line of each class of the incident, without warnings that explain nothing, and of a cancellation.

    Without an incident, that of each finding.
    """
    firsts = [finding.first for finding in assessment.run.failures]
    if not assessment.incident:
        return firsts
    related = [candidate.signal for candidate in assessment.candidates if not candidate.is_idle]
    related += [signal for signal in firsts if is_cancellation(signal.failure_class)]
    by_class: dict[str, Signal] = {}
    for signal in sorted((signal for signal in related if signal.position), key=onset_order):
        by_class.setdefault(signal.failure_class, signal)
    return list(by_class.values())


def _last_lines(story: Story, primary: str) -> list[EvidenceLine]:
    """The last step's line and the line with the status."""
    found = [EvidenceLine(story.steps.last_line, story.last_step_text, primary)] if story.last_step_text else []
    if status := story.facts.get("job.status"):
        event = status.newest.event
        found.append(EvidenceLine(event.position.offset, event.text[:MAX_EVIDENCE_LENGTH], primary))
    return found


def _line(story: Story, signal: Signal) -> EvidenceLine:
    text = "\n".join(signal.block) if signal.block else signal.text
    place = signal.position
    file = place.source if place and not story.is_in_log(place) else ""
    return EvidenceLine(place.offset if place else 0, text[:MAX_EVIDENCE_LENGTH], signal.failure_class, file)


def _cascade(assessment: Assessment) -> tuple[str, ...]:
    """A sentence for each class that another one explains, except the primary one."""
    sentences: dict[str, str] = {}
    for candidate in assessment.candidates:
        name, cause = candidate.signal.failure_class, candidate.explained_by
        if cause and name != assessment.primary:
            sentences.setdefault(name, cascade_text(name, cause))
    return tuple(sentences.values())


def _unnamed(story: Story) -> tuple[UnnamedReport, ...]:
    return tuple(_message(story, message) for message in rarest_first(story)[:MAX_UNNAMED])


def _message(story: Story, message: UnnamedMessage) -> UnnamedReport:
    first, last = _line(story, message.first), _line(story, message.last)
    return UnnamedReport(
        template=message.template,
        text=first.text,
        count=message.count,
        first_line=first.line,
        last_line=last.line,
        nodes=tuple(sorted(message.nodes)),
        ranks=tuple(sorted(message.ranks)),
        file=first.file,
        unusual=unusual_texts(story, message),
    )


def _finding(finding: Finding, rules: RuleSet) -> FindingReport:
    first = finding.first
    return FindingReport(
        failure_class=finding.failure_class,
        parent=vocabulary().parent(finding.failure_class),
        rule=first.rule,
        title=rules.by_id[first.rule].spec.title,
        severity=finding.severity,
        role=finding.role,
        count=finding.count,
        first_line=first.position.offset if first.position else 0,
        nodes=tuple(sorted(finding.nodes)),
        ranks=tuple(sorted(finding.by_rank)),
        fields=first.fields,
    )
