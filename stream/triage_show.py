"""How a triage report looks: Markdown that reads well in a terminal and in a ticket, with log text made inert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rules.triage.document import EvidenceLine, ProgressReport, Triage
from sinks.inert import make_inert

LONGEST_LINE: Final = 400
SHOWN_BLOCK_LINES: Final = 30


def ticket(report: Triage) -> str:
    """One job's report as Markdown."""
    parts = [
        _head(report),
        _section("What happened", report.summary),
        _section("Evidence", "\n".join(_evidence(line) for line in report.evidence)),
        _section("Training progress projection", _progress(report.progress)),
        _section("Diagnosis", "\n".join(f"- {one.question} **{safe(one.answer)}**" for one in report.checks)),
        _section("Cascade", "\n".join(f"- {safe(line)}" for line in report.cascade)),
        _section("Additional findings", _findings(report)),
        _section("Live dashboards", "\n".join(f"- {safe(line)}" for line in report.dashboards)),
        _section("Recommended next steps", "\n".join(f"{n}. {step}" for n, step in enumerate(report.next_steps, 1))),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def table(reports: Sequence[Triage]) -> str:
    """Many jobs, one a row."""
    rows = ["| Job | Status | Primary failure | Last step | What happened |", "|---|---|---|---|---|"]
    rows += [
        f"| {cell(report.path)} | {report.status} | {report.primary or '-'} | {_last_step(report.progress)} "
        f"| {cell(report.summary)} |"
        for report in reports
    ]
    return "\n".join(rows) + "\n"


def safe(text: str) -> str:
    """Log text on one line, inert."""
    return make_inert(text)[:LONGEST_LINE]


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return safe(text).replace("|", "\\|")


def _head(report: Triage) -> str:
    primary = report.primary or "none"
    if report.family and report.family != report.primary:
        primary += f" ({report.family})"
    lines = [
        f"## Job triage: {safe(report.path)}",
        "",
        f"**Status:** {report.status}",
        f"**Primary failure:** {primary}",
    ]
    if report.confidence is not None:
        lines.append(f"**Confidence:** {report.confidence:.2f}, because {safe('; '.join(report.reasons))}")
    return "\n".join([*lines, f"**Stage:** {safe(report.stage or 'unknown')}", ""])


def _section(title: str, body: str) -> str:
    return f"### {title}\n\n{body}\n" if body else ""


def _evidence(line: EvidenceLine) -> str:
    """Indented by four, so that nothing in it is Markdown."""
    shown = line.text.split("\n")
    if len(shown) > SHOWN_BLOCK_LINES:
        left_out = len(shown) - SHOWN_BLOCK_LINES
        shown = [*shown[: SHOWN_BLOCK_LINES // 2], f"[{left_out} lines left out]", *shown[-SHOWN_BLOCK_LINES // 2 :]]
    file = f"{safe(line.file)}, " if line.file else ""
    return "\n".join(
        [f"- {file}line {line.line}, {line.failure_class}:", "", *(f"      {safe(text)}" for text in shown), ""]
    )


def _findings(report: Triage) -> str:
    return "\n".join(
        f"- {found.failure_class}: {found.title} ({found.count}x, first at line {found.first_line}, {found.role})"
        for found in report.findings
        if found.failure_class != report.primary
    )


def _progress(progress: ProgressReport) -> str:
    if progress.last_step is None:
        return "No training step was logged."
    saved = progress.last_checkpoint_step
    start = f"restored from step {progress.restored_step}" if progress.start == "restored" else progress.start
    done = f"{progress.steps_this_run} (step {progress.first_step} to {progress.last_step})"
    share = "" if progress.percent is None else f" ({progress.percent} %)"
    rows = [
        ("Start", start),
        ("Steps completed (this run)", done),
        ("Overall progress", _last_step(progress) + share),
        ("Steady-state step time", _seconds(progress.step_time_s)),
        ("Expected step by now", _or_unknown(progress.expected_step_now)),
        ("Last periodic checkpoint this run", "none" if saved is None else f"step {saved}"),
        (
            "Progress lost",
            f"{progress.steps_lost} steps, {_seconds(progress.time_lost_s)}" + ("" if saved else ", all"),
        ),
        ("Estimated time remaining", _seconds(progress.time_left_s)),
    ]
    if progress.attempts > 1:
        rows.append(("Attempts in this log", str(progress.attempts)))
    return "\n".join(["| Metric | Value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def _last_step(progress: ProgressReport) -> str:
    if progress.last_step is None:
        return "-"
    return f"{progress.last_step}/{progress.total_steps}" if progress.total_steps else str(progress.last_step)


def _seconds(time_s: float | None) -> str:
    if time_s is None:
        return "unknown"
    hours, minutes = int(time_s // 3600), int(time_s % 3600 // 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {time_s % 60:.0f} s" if minutes else f"{time_s:.1f} s"


def _or_unknown(number: int | None) -> str:
    return "unknown" if number is None else str(number)
