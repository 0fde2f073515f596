"""Story -> Triage: everything that a person or program is told about one job's log."""

from __future__ import annotations

from typing import Final

from rules.model import Signal
from rules.reason_text import reason_text
from rules.ruleset import RuleSet
from rules.triage.advice import next_steps
from rules.triage.dashboards import dashboards
from rules.triage.diagnose import checks
from rules.triage.document import EvidenceLine, FindingReport, ProgressReport, Triage
from rules.triage.primary import cascade
from rules.triage.projection import has_made_all_steps, project
from rules.triage.stage import stage
from rules.triage.story import Finding, Story
from rules.triage.verdict import Asked, Verdict, judge
from rules.vocabulary import vocabulary

__all__ = ["Asked", "triage"]

SHOWN_EVIDENCE: Final = 12
SHOWN_OF_PRIMARY: Final = 3
LONGEST_EVIDENCE: Final = 4000


def triage(story: Story, rules: RuleSet, asked: Asked) -> Triage:
    """The report on one job; the same for the same log, time and job state."""
    verdict = judge(story, rules, asked)
    name, progress = verdict.primary, project(story, verdict.as_of_ns, is_lost=verdict.status != "completed")
    shown = {finding.failure_class for finding in story.failures()}
    return Triage(
        path=story.path,
        status=verdict.status,
        primary=name,
        family=(vocabulary().parent(name) or name) if name else None,
        classes=tuple(sorted(shown | ({name} if name else set()))),
        stage=stage(story, name),
        summary=_summary(story, verdict, progress),
        evidence=_evidence(story, verdict),
        progress=progress,
        findings=tuple(_finding(finding, rules) for finding in story.findings.values()),
        next_steps=next_steps(story, verdict),
        action=verdict.spec.action if verdict.spec else "none",
        confidence=verdict.confidence,
        reasons=tuple(map(reason_text, verdict.reasons)),
        checks=tuple(checks(story, verdict, asked.job_state)),
        cascade=cascade(verdict.candidates, name),
        dashboards=dashboards(story, verdict.status),
        files=story.files,
        lines=story.lines,
    )


_NOTHING: Final = {
    "completed": "The job came to its regular end.",
    "running": "The job is under way, and nothing in the log says that it fails.",
    "unknown-death": "Nothing in the log shows a job, a failure or a regular end.",
}


def _summary(story: Story, verdict: Verdict, progress: ProgressReport) -> str:
    told = [verdict.spec.meaning if verdict.spec else _NOTHING.get(verdict.status, "No failure is in the log.")]
    if not story.lines and verdict.status == "unknown-death":
        told = ["The log is empty: the job was ended before it could print a line, in the prolog or at launch."]
    if cause := verdict.cause:
        others = sum(finding.count for finding in story.failures()) - 1
        told.append(f"It is first seen {_place(story, cause)}{_follow(others)}.")
    if verdict.status == "cancelled" and verdict.primary == "hang":
        told.append("The cancellation only ended a job that stood still already.")
    if verdict.status == "failed" and has_made_all_steps(story):
        told.append("All steps had been made by then, so that it failed while it shut down.")
    elif progress.last_step is not None and verdict.status != "completed":
        told.append(f"The last completed step is {progress.last_step}{_of(progress)}.")
    return " ".join(told)


def _follow(others: int) -> str:
    if not others:
        return ""
    return (
        f"; {others} more lines repeat it or follow from it"
        if others > 1
        else "; one more line repeats it or follows from it"
    )


def _of(progress: ProgressReport) -> str:
    return f" of a job of {progress.total_steps}" if progress.total_steps else ""


def _place(story: Story, signal: Signal) -> str:
    node = signal.node or story.node_of(signal.rank)
    who = [f"on {node}"] if node else []
    who += [f"by rank {signal.rank}"] if signal.rank is not None else []
    who += [f"at line {signal.position.offset}"] if signal.position else []
    return ", ".join(who) or "here"


def _evidence(story: Story, verdict: Verdict) -> tuple[EvidenceLine, ...]:
    """The cause's lines, then the first one of every other class; for a silence, the last words before it."""
    cause, chosen = verdict.cause, list[Signal]()
    if cause:
        same = [*story.findings[cause.failure_class].signals, *story.findings[cause.failure_class].earlier]
        chosen = [cause, *(signal for signal in same if signal is not cause)][:SHOWN_OF_PRIMARY]
    known = cause.failure_class if cause else ""
    others = [finding.first for finding in story.failures() if finding.failure_class != known]
    lines = [_line(story, signal) for signal in [*chosen, *others]]
    if not cause and verdict.primary:
        told = {line.line for line in lines}
        lines = [*(one for one in _last_words(story, verdict.primary) if one.line not in told), *lines]
    return tuple(lines[:SHOWN_EVIDENCE])


def _last_words(story: Story, primary: str) -> list[EvidenceLine]:
    """The last step and the line that tells the status."""
    found = [EvidenceLine(story.steps.last_line, story.last_step_text, primary)] if story.last_step_text else []
    if status := story.facts.get("job.status"):
        event = status.newest.event
        found.append(EvidenceLine(event.position.offset, event.text[:LONGEST_EVIDENCE], primary))
    return found


def _line(story: Story, signal: Signal) -> EvidenceLine:
    text = "\n".join(signal.block) if signal.block else signal.text
    place = signal.position
    file = place.source if place and not story.is_in_log(place) else ""
    return EvidenceLine(place.offset if place else 0, text[:LONGEST_EVIDENCE], signal.failure_class, file)


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
