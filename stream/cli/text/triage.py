"""A triage report as Markdown for a terminal and a ticket, with sanitized log text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from epicenter.ingest.batch.clean import clean
from epicenter.rules.model.ranges import rank_list
from epicenter.rules.triage.document import Check, EvidenceLine, FindingReport, ProgressReport, Triage, UnnamedReport
from epicenter.sinks.text.sanitize import sanitize

MAX_LINE_LENGTH: Final = 400
MAX_SUMMARY_LENGTH: Final = 1500
MAX_SHOWN_BLOCK_LINES: Final = 30
MAX_SHOWN_REASONS: Final = 3
MAX_SHOWN_UNNAMED: Final = 5
_DRAFT: Final = "Write a rule for one of them: `epicenter rules draft TEXT`, with a line of it as TEXT."
_MARKDOWN: Final = re.compile(r"([\\`*\[\]<>])")


def ticket(report: Triage) -> str:
    """One job's report as Markdown."""
    parts = [
        _head(report),
        _section("What happened", safe(report.summary, MAX_SUMMARY_LENGTH)),
        _section("Evidence", "\n".join(map(_evidence, report.evidence))),
        _section("Training progress projection", _progress(report.progress)),
        _section("Diagnosis", "\n".join(map(_check, report.checks))),
        _section("Cascade", "\n".join(f"- {safe(line)}" for line in report.cascade)),
        _section("Additional findings", _findings(report)),
        _section("Looks like a failure, but no rule names it", _unnamed(report)),
        _section("Live dashboards", "\n".join(f"- {safe(line)}" for line in report.dashboards)),
        _section("Recommended next steps", "\n".join(f"{n}. {step}" for n, step in enumerate(report.next_steps, 1))),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def table(reports: Sequence[Triage]) -> str:
    """Many jobs, one a row."""
    rows = ["| Job | Status | Primary failure | Last step | What happened |", "|---|---|---|---|---|"]
    rows += [
        f"| {cell(report.path)} | {report.status} | {safe(report.primary or '-')} | {_last_step(report.progress)} "
        f"| {cell(report.summary, MAX_SUMMARY_LENGTH)} |"
        for report in reports
    ]
    return "\n".join(rows) + "\n"


def safe(text: str, longest: int = MAX_LINE_LENGTH) -> str:
    """Log text on one line: harmless on a terminal, without markup or links in a ticket."""
    return _MARKDOWN.sub(r"\\\1", sanitize(clean(text))[:longest])


def cell(text: str, longest: int = MAX_LINE_LENGTH) -> str:
    """Text for a cell of a table."""
    return safe(text, longest).replace("|", "\\|")


def code(text: str) -> str:
    """Log text as an indented block of code, so that none of it is Markdown."""
    return f"      {sanitize(clean(text))[:MAX_LINE_LENGTH]}"


def _head(report: Triage) -> str:
    primary = report.primary or "none"
    if report.family and report.family != report.primary:
        primary += f" ({report.family})"
    facts = [
        ("Job", report.job or "not known"),
        ("Status", report.status),
        ("Primary failure", primary),
        ("Stage", report.stage or "unknown"),
    ]
    if report.confidence is not None:
        facts.append(
            ("Confidence", f"{report.confidence:.2f}, because {'; '.join(report.reasons[:MAX_SHOWN_REASONS])}")
        )
    if len(report.files) == 1 and report.files[0] not in ("", report.path):
        facts.append(("Log", report.files[0]))
    lines = [f"**{name}:** {safe(value)}  " for name, value in facts]
    return "\n".join([f"## Job triage: {safe(report.path)}", "", *lines, ""])


def _section(title: str, body: str) -> str:
    return f"### {title}\n\n{body.rstrip()}\n" if body else ""


def _evidence(line: EvidenceLine) -> str:
    shown = line.text.split("\n")
    if len(shown) > MAX_SHOWN_BLOCK_LINES:
        left_out = len(shown) - MAX_SHOWN_BLOCK_LINES
        shown = [
            *shown[: MAX_SHOWN_BLOCK_LINES // 2],
            f"[{left_out} lines left out]",
            *shown[-MAX_SHOWN_BLOCK_LINES // 2 :],
        ]
    file = f"{safe(line.file)}, " if line.file else ""
    return "\n".join([f"- {file}line {line.line}, {safe(line.failure_class)}:", "", *map(code, shown), ""])


def _check(check: Check) -> str:
    answer = f"- {safe(check.question)} **{safe(check.answer)}**"
    return f"{answer}\n\n{code(check.quote)}\n" if check.quote else answer


def _findings(report: Triage) -> str:
    return "\n".join(_finding(found) for found in report.findings if found.failure_class != report.primary)


def _finding(found: FindingReport) -> str:
    times = "once" if found.count == 1 else f"{found.count} times, first"
    return f"- {safe(found.failure_class)}: {found.title} ({times} at line {found.first_line}; {_ROLES[found.role]})"


def _unnamed(report: Triage) -> str:
    shown = [_message(message) for message in report.unnamed[:MAX_SHOWN_UNNAMED]]
    return "\n".join([*shown, _DRAFT]) if shown else ""


def _message(message: UnnamedReport) -> str:
    times = "once" if message.count == 1 else f"{message.count} times, first"
    who = f", {rank_list(message.ranks)}" if message.ranks else ""
    file = f"{safe(message.file)}, " if message.file else ""
    unusual = f" ({safe(', '.join(message.unusual))})" if message.unusual else ""
    return f"- {times} at {file}line {message.first_line}{who}{unusual}:\n\n{code(message.text)}\n"


_ROLES: Final = {
    "root": "can be a cause",
    "cascade": "mostly follows from something else",
    "confirmation": "confirms something else",
    "teardown": "part of the ending",
    "advice": "a hint",
}


def _progress(progress: ProgressReport) -> str:
    if progress.last_step is None:
        return ""
    about = "about " if progress.is_time_estimated else ""
    rounded = "about " if progress.is_rounded else ""
    rows = [
        ("Start", _start(progress)),
        (
            "Steps completed (this run)",
            f"{rounded}{progress.steps_this_run} steps (step {progress.first_step} through {progress.last_step})",
        ),
        ("Overall progress", _overall(progress)),
        ("Steady-state step time", _step_time(progress)),
        ("Last step made", f"{about}{progress.last_step_time[:19]}Z" if progress.last_step_time else "unknown"),
        ("Expected step by now", _expected(progress)),
        ("Last periodic ckpt this run", _checkpoint(progress)),
        ("Progress lost", _lost(progress)),
        ("Estimated time remaining", duration(progress.time_left_s)),
    ]
    if progress.attempts > 1:
        rows.append(("Attempts in this log", f"{progress.attempts}; the rows above are about the newest"))
    return "\n".join(["| Metric | Value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def _start(progress: ProgressReport) -> str:
    return f"restored from ckpt {progress.restored_step}" if progress.start == "restored" else progress.start


def _overall(progress: ProgressReport) -> str:
    share = "" if progress.percent is None else f" ({progress.percent} %)"
    return f"{_last_step(progress)}{share}"


def _step_time(progress: ProgressReport) -> str:
    return "unknown: too few steps" if progress.step_time_s is None else f"{progress.step_time_s:.3f} s"


def _expected(progress: ProgressReport) -> str:
    if progress.expected_step_now is None or progress.last_step is None:
        return "unknown: the log does not tell when steps were made, or how fast"
    ahead = progress.expected_step_now - progress.last_step
    return f"{progress.expected_step_now}" + (f" ({ahead} ahead of the last one)" if ahead else "")


def _checkpoint(progress: ProgressReport) -> str:
    if progress.last_checkpoint_step is not None:
        return f"step {progress.last_checkpoint_step}"
    period = progress.checkpoint_period
    return f"none: did not reach the period of {period}" if period else "none: no checkpoints as far as the log says"


def _lost(progress: ProgressReport) -> str:
    if not progress.steps_lost:
        return "nothing"
    lost = f"{progress.steps_lost} steps ({duration(progress.time_lost_s)})"
    return f"{lost} since the last ckpt" if progress.last_checkpoint_step is not None else f"all, {lost}"


def _last_step(progress: ProgressReport) -> str:
    """Steps made so far, as a share of all of them."""
    if progress.last_step is None:
        return "-"
    return f"{progress.steps_done}/{progress.total_steps}" if progress.total_steps else str(progress.steps_done)


def duration(time_s: float | None) -> str:
    """A duration in words, to the second or minute."""
    if time_s is None:
        return "time unknown"
    whole = round(time_s)
    hours, minutes, seconds = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{time_s:.1f} s"
