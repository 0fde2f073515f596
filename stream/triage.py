"""What `epicenter triage` does: read a job's files once, and report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import time_ns

import click
import msgspec
import orjson

from ingest.collect.source import Sources
from ingest.jobs import JobLogs, jobs_at
from ingest.parse.times import time_from_field
from ingest.tail import last_lines
from rules.errors import InputError
from rules.load import load
from rules.ruleset import RuleSet
from rules.triage.document import Triage
from rules.triage.report import Asked, triage
from rules.triage.story import Story
from stream.commands import hostname
from stream.holding import HoldingScanner
from stream.pipeline import read_to_the_end
from stream.scan import BatchScanner
from stream.settings import Settings
from stream.triage_show import table, ticket


def triage_paths(
    settings: Settings, paths: list[str], outputs: Path, now: str | None, job_state: str, as_json: bool
) -> bool:
    """Report on every job at these paths; true when one of them could not be read."""
    asked = Asked(_time_ns(now) if now else time_ns(), job_state)
    rules = load(settings.rule_packs)
    reports: list[Triage] = []
    unread: list[str] = []
    for job in _jobs(paths, outputs, unread):
        try:
            reports.append(triage(read_story(job, rules), rules, asked))
        except InputError as error:
            unread.append(str(error))
            continue
        if as_json:
            click.echo(orjson.dumps(msgspec.to_builtins(reports[-1])))
    if not as_json:
        click.echo(table(reports) if len(reports) > 1 else "".join(map(ticket, reports)), nl=False)
    for message in unread:
        click.echo(message, err=True)
    return bool(unread)


def _time_ns(text: str) -> int:
    if (time_ns := time_from_field(text)) is None:
        raise click.UsageError(f"--now {text}: no time: write it like 2026-03-02T09:00:00Z")
    return time_ns


def _jobs(paths: list[str], outputs: Path, unread: list[str]) -> Iterator[JobLogs]:
    for path in paths:
        try:
            yield from jobs_at(path, outputs)
        except InputError as error:
            unread.append(str(error))


def read_story(job: JobLogs, rules: RuleSet) -> Story:
    """A job's files from beginning to end.

    Raises:
        InputError: one can't be read.
    """
    story = Story(job.name, tuple(map(str, job.files)))
    scanner = HoldingScanner(BatchScanner(rules, "default", keep_all=True))
    sources = Sources([str(file) for file in job.files], hostname(), follow=False)
    for scanned in scanner.scan_all(read_to_the_end(sources)):
        story.lines += scanned.records
        for match in sorted(scanned.matches, key=lambda match: match.event.position):
            story.note(match, rules)
    if job.files[0].is_file():
        story.tail, story.is_cut_off = last_lines(job.files[0])
    return story
