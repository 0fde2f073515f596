"""An incident as text: wrapped with hanging indents on a terminal, never wrapped in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from epicenter.rules.model.incident import Incident
from epicenter.sinks.text.incident_parts import CauseView
from epicenter.sinks.text.incident_view import IncidentView
from epicenter.stream.cli.text.terminal import SEVERITY_STYLES, console, safe

MIN_WRAP_COLUMNS: Final = 24
"""Lines are wrapped only if at least this many columns are left after the indent."""

Line = tuple[str, str]
"""The label at the left, and the text with markup."""


def incident_line(incident: Incident) -> str:
    """An incident on one line."""
    severity = incident.severity
    jobs = ", ".join(incident.jobs) or "-"
    return (
        f"{incident.incident_id}  {incident.status:<8}  [{SEVERITY_STYLES.get(severity, '')}]{severity:<8}[/]  "
        f"{incident.first_seen[:19]}Z  {safe(incident.failure_class):<20}  {safe(incident.title)}  (job {safe(jobs)}, "
        f"{incident.signal_count} signals)"
    )


def print_incident_report(incident: Incident) -> None:
    """Print an incident in full."""
    print_hanging(console(), incident_report(incident))


def print_hanging(shown: Console, lines: Iterable[Line]) -> None:
    """Print lines; on a terminal a long text continues below its own start."""
    for left, marked_up in lines:
        text, room = Text.from_markup(marked_up), shown.width - len(left)
        wraps = shown.is_terminal and room >= MIN_WRAP_COLUMNS
        for number, piece in enumerate(text.wrap(shown, room) if wraps else [text]):
            shown.print(Text(left if number == 0 else " " * len(left)) + piece)


def incident_report(incident: Incident) -> Iterator[Line]:
    """An incident in full."""
    view = IncidentView(incident)
    yield "", incident_line(incident)
    yield "  reaches     ", view.reach_in_full
    if view.lost_since:
        yield "  lost        ", view.lost_since
    yield "  root cause  ", _cause(view.cause, "bold")
    for reason in view.cause.reasons:
        yield "              because ", safe(reason)
    for other in view.candidates[1:]:
        yield "  or else     ", _cause(other)
    for sentence in view.missing:
        yield "  missing     ", safe(sentence)
    yield from _chain(view)
    yield from _progress(view)
    for change in view.history:
        yield f"  {change.clock}  ", safe(change.what)
    yield "", f"  next        (action: {safe(incident.action)})"
    for number, step in enumerate(view.next_steps, 1):
        yield f"    {number}. ", safe(step)


def _cause(cause: CauseView, style: str = "") -> str:
    name = f"[{style}]{safe(cause.failure_class)}[/]" if style else safe(cause.failure_class)
    return f"{name}{safe(cause.where)}, confidence {cause.confidence_percent}"


def _chain(view: IncidentView) -> Iterator[Line]:
    yield "", "  chain"
    for link in view.chain:
        logged = f", logged at {link.logged}" if link.logged else ""
        yield f"    {link.clock}  {link.role:<12}  ", f"{safe(link.failure_class)}{safe(link.where)}{logged}"
        yield " " * 18, f"[dim]{safe(link.text, 160)}[/]"


def _progress(view: IncidentView) -> Iterator[Line]:
    if view.progress:
        yield "", "  progress"
    for progress in view.progress:
        pace = progress.pace or "pace unknown"
        yield "    ", f"job {safe(progress.name)}: last step {progress.last_step} at {progress.clock}, {pace}"
