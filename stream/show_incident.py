"""How an incident looks on a terminal: wrapped to its width with hanging indents there, never wrapped in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from sinks.story import lost, where
from stream.show import SEVERITY_STYLES, console, safe

NARROWEST: Final = 24
"""Fewer columns beside an indent are not worth wrapping for."""

Line = tuple[str, str]
"""What stands at the left, and the text beside it, which is marked up."""


def incident_line(document: Mapping[str, Any]) -> str:
    """An incident on one line."""
    severity = document["severity"]
    jobs = ", ".join(document["jobs"]) or "-"
    return (
        f"{document['incident_id']}  {document['status']:<8}  [{SEVERITY_STYLES.get(severity, '')}]{severity:<8}[/]  "
        f"{document['first_seen'][:19]}Z  {safe(document['class']):<20}  {safe(document['title'])}  (job {safe(jobs)}, "
        f"{document['signal_count']} signals)"
    )


def print_incident_report(document: Mapping[str, Any]) -> None:
    """Print an incident in full."""
    print_hanging(console(), incident_report(document))


def print_hanging(shown: Console, lines: Iterable[Line]) -> None:
    """Print lines; on a terminal what is too long goes on below its own beginning."""
    for left, marked_up in lines:
        text, room = Text.from_markup(marked_up), shown.width - len(left)
        wraps = shown.is_terminal and room >= NARROWEST
        for number, piece in enumerate(text.wrap(shown, room) if wraps else [text]):
            shown.print(Text(left if number == 0 else " " * len(left)) + piece)


def incident_report(document: Mapping[str, Any]) -> Iterator[Line]:
    """An incident in full."""
    root, reach = document["root_cause"], {"gpus": 0, **document["blast_radius"]}
    yield "", incident_line(document)
    yield (
        "  reaches     ",
        f"{reach['nodes']} nodes, {reach['ranks']} ranks, {reach['jobs']} jobs, {reach['gpus']} GPUs",
    )
    if cost := lost(document):
        yield "  lost        ", cost
    yield "  root cause  ", f"[bold]{safe(root['class'])}[/]{safe(where(root))}, confidence {root['confidence']:.2f}"
    for reason in root["reasons"]:
        yield "              because ", safe(reason)
    for other in document.get("candidates", ())[1:]:
        yield "  or else     ", f"{safe(other['class'])}{safe(where(other))}, confidence {other['confidence']:.2f}"
    for sentence in document.get("missing", ()):
        yield "  missing     ", safe(sentence)
    yield from _chain(document)
    yield from _progress(document["progress"])
    for change in document.get("history", ()):
        yield f"  {change['time'][11:23]}  ", safe(change["what"])
    yield "", f"  next        (action: {safe(document['action'])})"
    for number, step in enumerate(document["next_steps"], 1):
        yield f"    {number}. ", safe(step)


def _chain(document: Mapping[str, Any]) -> Iterator[Line]:
    yield "", "  chain"
    for link in document["chain"]:
        place = safe(link["node"] or "-") + (f" rank {link['rank']}" if link["rank"] is not None else "")
        waited = "" if link["onset"] == link["event_time"] else f", said at {link['event_time'][11:23]}"
        yield f"    {link['onset'][11:23]}  {link['role']:<12}  ", f"{safe(link['class'])} on {place}{waited}"
        yield " " * 18, f"[dim]{safe(link['text'], 160)}[/]"


def _progress(progress_by_job: Mapping[str, Any]) -> Iterator[Line]:
    if progress_by_job:
        yield "", "  progress"
    for job, progress in progress_by_job.items():
        pace = f"{progress['step_time_s']:.1f} s a step" if progress["step_time_s"] else "pace unknown"
        when = progress["last_step_time"][11:19]
        yield "    ", f"job {safe(job)}: last step {progress['last_step']} at {when}, {pace}"
