"""An incident on one line, and in full."""

from __future__ import annotations

from collections.abc import Iterator

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.job_names import jobs_in_words
from epicenter.sinks.text.humanize import count
from epicenter.sinks.text.incident_parts import CauseView
from epicenter.sinks.text.incident_view import IncidentView
from epicenter.stream.cli.text.layout import Line, command_lines, with_commands
from epicenter.stream.cli.text.terminal import SEVERITY_STYLES, safe


def incident_line(incident: Incident) -> str:
    """An incident on one line."""
    severity = incident.severity
    affected = jobs_in_words(incident.jobs) or "job -"
    return (
        f"{incident.incident_id}  {incident.status:<8}  [{SEVERITY_STYLES.get(severity, '')}]{severity:<8}[/]  "
        f"{_opened(incident):<20}  {safe(incident.failure_class):<20}  {safe(incident.title)}  ({safe(affected)}, "
        f"{count(incident.signal_count, 'signal')})"
    )


def _opened(incident: Incident) -> str:
    return f"{incident.first_seen[:19]}Z" if incident.first_seen else "times not known"


def incident_report(incident: Incident) -> Iterator[Line]:
    """An incident in full."""
    view = IncidentView(incident)
    yield Line("", incident_line(incident))
    yield Line("  reaches     ", view.reach_in_full)
    if view.lost_since:
        yield Line("  lost        ", view.lost_since)
    yield Line("  root cause  ", _cause(view.cause, "bold"))
    for reason in view.cause.reasons:
        yield Line("              because ", safe(reason))
    for name, value in view.incident.root_cause.fields.items():
        yield Line("  says        ", safe(f"{name}: {value}"))
    for check in view.incident.checks:
        yield Line("  checked     ", safe(f"{check.question} {check.answer}"))
    for other in view.candidates[1:]:
        yield Line("  or else     ", _cause(other))
    for sentence in view.missing:
        yield Line("  missing     ", safe(sentence))
    yield from _chain(view)
    yield from _progress(view)
    for change in view.history:
        yield Line(f"  {change.clock}  ", safe(change.what))
    yield Line("", f"  next        (action: {safe(incident.action)})")
    yield from command_lines(incident.commands)
    for number, step in enumerate(view.next_steps, 1):
        yield Line(f"    {number}. ", with_commands(safe(step)))


def _cause(cause: CauseView, style: str = "") -> str:
    name = f"[{style}]{safe(cause.failure_class)}[/]" if style else safe(cause.failure_class)
    return f"{name}{safe(cause.where)}, confidence {cause.confidence_percent}"


def _chain(view: IncidentView) -> Iterator[Line]:
    yield Line("", "  chain")
    for link in view.chain:
        logged = f", logged at {link.logged}" if link.logged else ""
        yield Line(f"    {link.clock}  {link.role:<12}  ", f"{safe(link.failure_class)}{safe(link.where)}{logged}")
        yield Line(" " * 18, f"[dim]{safe(link.text, 160)}[/]")


def _progress(view: IncidentView) -> Iterator[Line]:
    if view.progress:
        yield Line("", "  progress")
    for progress in view.progress:
        pace = progress.pace or "pace unknown"
        yield Line("    ", f"{safe(progress.name)}: last step {progress.last_step} at {progress.clock}, {pace}")
