"""How matches and incidents look on a terminal; log text is made inert first."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from ingest.batch import Batch
from ingest.text import TextLines
from sinks.inert import make_inert

SEVERITY_STYLES: Final = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "dim"}
LONGEST_LINE: Final = 220


def console() -> Console:
    """Standard output: coloured on a terminal, plain in a pipe, never wrapped there."""
    return Console(highlight=False, emoji=False, soft_wrap=True)


def safe(text: object, longest: int = LONGEST_LINE) -> str:
    """Log text as it may be shown: inert, on one line, not too long."""
    shown = make_inert(str(text))
    return escape(shown if len(shown) <= longest else shown[: longest - 1] + "…")


def incident_line(document: Mapping[str, Any]) -> str:
    """An incident on one line."""
    severity = document["severity"]
    jobs = ", ".join(document["jobs"]) or "-"
    return (
        f"{document['incident_id']}  {document['status']:<8}  [{SEVERITY_STYLES.get(severity, '')}]{severity:<8}[/]  "
        f"{document['first_seen'][:19]}Z  {safe(document['class']):<20}  {safe(document['title'])}  (job {safe(jobs)}, "
        f"{document['signal_count']} signals)"
    )


def incident_report(document: Mapping[str, Any]) -> str:
    """An incident in full."""
    root, reach = document["root_cause"], {"gpus": 0, **document["blast_radius"]}
    lines = [
        incident_line(document),
        f"  reaches     {reach['nodes']} nodes, {reach['ranks']} ranks, {reach['jobs']} jobs, {reach['gpus']} GPUs",
        _cost_line(document.get("cost", {})),
        f"  root cause  [bold]{safe(root['class'])}[/] on {safe(root['node'] or '-')}, "
        f"confidence {root['confidence']:.2f}",
        *(f"              because {safe(reason)}" for reason in root["reasons"]),
        *(_candidate_line(candidate) for candidate in document.get("candidates", ())[1:]),
        *(f"  missing     {safe(sentence)}" for sentence in document.get("missing", ())),
        "  chain",
        *(_chain_line(link) for link in document["chain"]),
        "  progress" if document["progress"] else "",
        *(_progress_line(job, progress) for job, progress in document["progress"].items()),
        f"  next        (action: {safe(document['action'])})",
        *(f"    {number}. {safe(step)}" for number, step in enumerate(document["next_steps"], 1)),
    ]
    return "\n".join(line for line in lines if line)


def _cost_line(cost: Mapping[str, Any]) -> str:
    steps, hours = cost.get("steps_lost"), cost.get("gpu_hours_lost")
    parts = [f"{steps} steps"] if steps is not None else []
    parts += [f"{hours:.1f} GPU-hours"] if hours is not None else []
    return f"  lost        {', '.join(parts)}" if parts else ""


def _candidate_line(candidate: Mapping[str, Any]) -> str:
    return (
        f"  or else     {safe(candidate['class'])} on {safe(candidate['node'] or '-')}, "
        f"confidence {candidate['confidence']:.2f}"
    )


def _chain_line(link: Mapping[str, Any]) -> str:
    place = safe(link["node"] or "-") + (f" rank {link['rank']}" if link["rank"] is not None else "")
    waited = "" if link["onset"] == link["event_time"] else f", said at {link['event_time'][11:23]}"
    return (
        f"    {link['onset'][11:23]}  {link['role']:<12}  {safe(link['class'])} on {place}{waited}\n"
        f"                  [dim]{safe(link['text'], 160)}[/]"
    )


def _progress_line(job: str, progress: Mapping[str, Any]) -> str:
    pace = f"{progress['step_time_s']:.1f} s a step" if progress["step_time_s"] else "pace unknown"
    return f"    job {safe(job)}: last step {progress['last_step']} at {progress['last_step_time'][11:19]}, {pace}"


def watched(batches: Iterable[Batch], paths: Iterable[str]) -> Iterator[Batch]:
    """The same batches, with a bar of the bytes read on standard error, when that is a terminal."""
    if not sys.stderr.isatty():
        yield from batches
        return
    total_bytes = sum(Path(path).stat().st_size for path in paths if Path(path).is_file())
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=total_bytes or None)
        for batch in batches:
            bar.update(task, advance=size_bytes(batch.values))
            yield batch


def size_bytes(values: Sequence[bytes]) -> int:
    """How many bytes of a file these lines are, without cutting a text up."""
    return len(values.text) if isinstance(values, TextLines) else sum(map(len, values)) + len(values)
