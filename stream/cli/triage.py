"""`epicenter triage`: read a job's files once, and report."""

from __future__ import annotations

from pathlib import Path
from time import time_ns

import click

from epicenter.ingest.parse.times import time_from_field
from epicenter.ingest.provenance.stated import Stated
from epicenter.rules.packs.load import load
from epicenter.rules.triage.document import Triage
from epicenter.rules.triage.report import Circumstances
from epicenter.sinks.text.sanitize import sanitized_json
from epicenter.stream.cli.text.layout import Line, print_hanging
from epicenter.stream.cli.text.terminal import console, watched
from epicenter.stream.cli.text.triage import table, ticket
from epicenter.stream.cli.text.triage_summary import triage_summary
from epicenter.stream.scan.redaction import redactor_of
from epicenter.stream.settings import Settings
from epicenter.stream.triage.job_reader import JobReader, reports_at

STDIN = "-"


def triage_paths(
    settings: Settings,
    paths: list[str],
    outputs: Path,
    stated: Stated,
    now: str | None,
    job_state: str | None,
    as_json: bool,
    is_full: bool,
) -> bool:
    """Report on every job at these paths; true when one of them could not be read."""
    circumstances = Circumstances(_time_ns(now) if now else time_ns(), job_state)
    reader = JobReader(
        load(settings.rule_packs, settings.topology), settings.cluster, redactor_of(settings), stated, watched
    )
    unread: list[str] = []
    for path in paths:
        reports = reports_at(path, outputs, reader, circumstances, unread)
        if as_json:
            for report in reports:
                click.echo(sanitized_json(report))
        else:
            _show(list(reports), is_full)
    for message in unread:
        click.echo(f"epicenter: {message}", err=True)
    return bool(unread)


def _show(reports: list[Triage], is_full: bool) -> None:
    """A screen for each job, or a ticket if wanted; a table for a folder of jobs."""
    if len({report.path for report in reports}) > 1:
        click.echo(table(reports), nl=False)
    elif is_full:
        click.echo("\n".join(map(ticket, reports)), nl=False)
    else:
        for number, report in enumerate(reports):
            print_hanging(console(), [Line("", "")] * (number > 0))
            print_hanging(console(), triage_summary(report))


def _time_ns(text: str) -> int:
    if (time_ns := time_from_field(text)) is None:
        raise click.UsageError(f"--now {text}: not a time: write it like 2026-03-02T09:00:00Z")
    return time_ns
