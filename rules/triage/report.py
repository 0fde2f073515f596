"""Story -> Triage: everything that a person or program is told about one job's log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rules.model import Signal
from rules.ruleset import RuleSet
from rules.spec import RuleSpec
from rules.triage.diagnose import checks
from rules.triage.document import EvidenceLine, FindingReport, ProgressReport, Triage
from rules.triage.primary import best, cascade, ranked
from rules.triage.projection import project
from rules.triage.status import decide, has_stalled
from rules.triage.story import Finding, Story
from rules.vocabulary import vocabulary

SHOWN_EVIDENCE: Final = 12
SHOWN_OF_PRIMARY: Final = 3
LONGEST_EVIDENCE: Final = 4000
_MARKERS: Final = {
    "preprocess": "data loading",
    "before_forward": "forward pass",
    "after_forward": "backward pass",
    "before_backward": "backward pass",
    "after_backward": "optimizer step",
}


@dataclass(frozen=True)
class Asked:
    """What is known besides the log: the time it is, and what the scheduler says of the job (empty: unknown)."""

    now_ns: int | None = None
    job_state: str = ""


def triage(story: Story, rules: RuleSet, asked: Asked) -> Triage:
    """The report on one job; the same for the same log, time and job state."""
    status = decide(story, asked.now_ns, asked.job_state)
    as_of_ns = asked.now_ns if status in ("running", "hanging") else story.newest_ns
    candidates = ranked(story, rules)
    cause = best(candidates)
    is_stalled = status == "hanging" or (status == "cancelled" and has_stalled(story, as_of_ns))
    spec = _primary_spec(story, rules, status, is_stalled, cause[0] if cause else None)
    primary = cause[0].failure_class if cause and spec and spec.detect == "line" else None
    name = primary or (spec.failure_class if spec else None)
    progress = project(story, as_of_ns)
    derived = {name} if name and not primary else set()
    return Triage(
        path=story.path,
        status=status,
        primary=name,
        family=(vocabulary().parent(name) or name) if name else None,
        classes=tuple(sorted({finding.failure_class for finding in story.failures()} | derived)),
        stage=stage(story),
        summary=_summary(story, status, spec, cause[0] if cause and primary else None, progress),
        evidence=_evidence(story, cause[0] if cause and primary else None),
        progress=progress,
        findings=_findings(story, rules),
        next_steps=spec.next_steps if spec else (),
        action=spec.action if spec else "none",
        confidence=cause[1] if cause and primary else None,
        reasons=cause[2] if cause and primary else (),
        checks=tuple(checks(story, status, name, as_of_ns, asked.job_state)),
        cascade=cascade(candidates),
        dashboards=_dashboards(story, status),
        files=story.files,
        lines=story.lines,
    )


def stage(story: Story) -> str | None:
    """How far into its life the job came: by its launcher's own marks, else by what it printed."""
    if stated := story.fact("job.stage", "stage"):
        return stated
    for fact in story.facts.values():
        if marker := fact.newest.fields.get("stage_marker", ""):
            return f"training, {_MARKERS.get(marker, marker)}"
    if story.steps.last is not None:
        return "training"
    return "initialisation" if any(rule.startswith("placement.") for rule in story.facts) else None


def _primary_spec(story: Story, rules: RuleSet, status: str, is_stalled: bool, cause: Signal | None) -> RuleSpec | None:
    """The rule that says what happened: of the cause, or of a silence that nothing in the log explains."""
    if cause and not (is_stalled and cause.role != "root"):
        return rules.by_id[cause.rule].spec
    if is_stalled:
        return _silence(rules, "no-progress")
    is_silent_end = status == "unknown-death" and _is_job_log(story)
    return _silence(rules, "silent-end") if is_silent_end else None


def _silence(rules: RuleSet, detect: str) -> RuleSpec | None:
    return next((rule.spec for rule in rules.rules if rule.spec.detect == detect), None)


def _is_job_log(story: Story) -> bool:
    """Whether the log shows a job at work, so that its end without a word is an event."""
    return story.steps.last is not None or "job.stage" in story.facts


def _summary(story: Story, status: str, spec: RuleSpec | None, cause: Signal | None, progress: ProgressReport) -> str:
    told = [spec.meaning] if spec else []
    if cause:
        others = sum(finding.count for finding in story.failures()) - 1
        rest = f"; {others} more lines repeat it or follow from it." if others else "."
        told.append(f"It is first seen {_place(cause)}{rest}")
    elif not spec:
        told.append(_NOTHING.get(status, "Nothing in the log shows a failure."))
    if progress.last_step is not None and status != "completed":
        told.append(f"The last completed step is {progress.last_step}{_of(progress)}.")
    return " ".join(told)


_NOTHING: Final = {
    "completed": "The job came to its regular end.",
    "cancelled": "The job was cancelled, and nothing in the log shows a failure before that.",
    "running": "The job makes steps, and nothing in the log shows a failure.",
    "unknown-death": "Nothing in the log shows a failure, a regular end, or a step.",
}


def _of(progress: ProgressReport) -> str:
    return f" of {progress.total_steps}" if progress.total_steps else ""


def _place(signal: Signal) -> str:
    who = [f"on {signal.node}"] if signal.node else []
    who += [f"by rank {signal.rank}"] if signal.rank is not None else []
    who += [f"at line {signal.position.offset}"] if signal.position else []
    return ", ".join(who) or "here"


def _evidence(story: Story, cause: Signal | None) -> tuple[EvidenceLine, ...]:
    """The cause's lines, then the first one of every other class."""
    chosen: list[Signal] = []
    if cause:
        same = story.findings[cause.failure_class].signals
        first = next((signal for signal in same if signal.signal_id == cause.signal_id), cause)
        chosen = [first, *(signal for signal in same if signal is not first)][:SHOWN_OF_PRIMARY]
    known = cause.failure_class if cause else ""
    others = [finding.first for finding in story.failures() if finding.failure_class != known]
    return tuple(_line(story, signal) for signal in [*chosen, *others][:SHOWN_EVIDENCE])


def _line(story: Story, signal: Signal) -> EvidenceLine:
    text = "\n".join(signal.block) if signal.block else signal.text
    place = signal.position
    file = place.source if place and place.source != story.files[0] else ""
    return EvidenceLine(place.offset if place else 0, text[:LONGEST_EVIDENCE], signal.failure_class, file)


def _findings(story: Story, rules: RuleSet) -> tuple[FindingReport, ...]:
    return tuple(_finding(finding, rules) for finding in story.findings.values())


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
        ranks=tuple(sorted(finding.ranks)),
        fields=first.fields,
    )


_DASHBOARDS_GONE: Final = "The job has ended, its dashboards with it; what is kept lies in prometheus/."


def _dashboards(story: Story, status: str) -> tuple[str, ...]:
    """Where a live Ray job can be looked at; once it has ended there is nothing behind these addresses."""
    tunnel = story.fact("job.ssh_tunnel", "command")
    if not tunnel:
        return ()
    if status not in ("running", "hanging"):
        return (_DASHBOARDS_GONE,)
    host = story.fact("job.ssh_tunnel", "head_host")
    port = story.fact("job.prometheus_port", "port") or story.fact("job.ssh_tunnel", "prometheus_port") or "9190"
    return (
        f"tunnel: {tunnel}",
        f"Prometheus on the head node: {host}:{port}",
        "Ray dashboard: 8265, TensorBoard: 6006",
    )
