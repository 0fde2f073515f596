"""`epicenter triage`: read a job's files once, and report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from time import time_ns

import click
import msgspec
import orjson

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.jobs import JobLogs, jobs_at
from epicenter.ingest.collect.source import Sources
from epicenter.ingest.parse.times import time_from_field
from epicenter.ingest.provenance.last_lines import check_is_text, last_lines
from epicenter.rules.errors import InputError
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.redact.redactor import Redactor
from epicenter.rules.triage.document import Triage
from epicenter.rules.triage.report import Circumstances, triage
from epicenter.rules.triage.story import Story
from epicenter.stream.cli.text.terminal import watched
from epicenter.stream.cli.text.triage import table, ticket
from epicenter.stream.local.pipeline import read_to_the_end
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.redaction import redactor_of, text_without_secrets
from epicenter.stream.scan.scan import BatchScanner
from epicenter.stream.settings import Settings

STDIN = "-"


def triage_paths(
    settings: Settings, paths: list[str], outputs: Path, now: str | None, job_state: str | None, as_json: bool
) -> bool:
    """Report on every job at these paths; true when one of them could not be read."""
    circumstances = Circumstances(_time_ns(now) if now else time_ns(), job_state)
    rules, redactor = load(settings.rule_packs, settings.topology), redactor_of(settings)
    unread: list[str] = []
    for path in paths:
        reports = reports_at(path, outputs, rules, circumstances, unread, redactor)
        if as_json:
            for report in reports:
                click.echo(orjson.dumps(msgspec.to_builtins(report)))
        else:
            _show(list(reports))
    for message in unread:
        click.echo(f"epicenter: {message}", err=True)
    return bool(unread)


def read_story(job: JobLogs, rules: RuleSet, redactor: Redactor | None = None) -> Story:
    """The story of a job, from all of its files; without credentials if there is a redactor.

    Raises:
        InputError: one can't be read.
    """
    is_piped = job.name == STDIN
    story = Story(
        path=_shown(job.name),
        files=("stdin",) if is_piped else tuple(map(str, job.files)),
        slurm_id=job.slurm_id,
        folder=_shown(str(job.folder or "")),
        artifacts=tuple(map(_shown, job.artifacts)),
        undated_ns=None if is_piped else frozenset(file.stat().st_mtime_ns for file in job.files),
    )
    _scan(job, rules, story, redactor)
    if not is_piped:
        tail, story.is_cut_off = last_lines(job.files[0])
        story.tail = tuple(text_without_secrets(redactor, line) for line in tail)
    return story


def reports_at(
    path: str,
    outputs: Path,
    rules: RuleSet,
    circumstances: Circumstances,
    unread: list[str],
    redactor: Redactor | None = None,
) -> Iterator[Triage]:
    """One report a job. Unreadable files are added to `unread` and don't stop the others."""
    try:
        jobs = jobs_at(path, outputs)
    except InputError as error:
        unread.append(str(error))
        return
    for job in jobs:
        try:
            yield _with_valid_names(triage(read_story(_readable(job, unread), rules, redactor), rules, circumstances))
        except InputError as error:
            unread.append(str(error))


def _show(reports: list[Triage]) -> None:
    """A ticket for one job, a table for a folder of them."""
    click.echo(table(reports) if len(reports) > 1 else "".join(map(ticket, reports)), nl=False)


def _readable(job: JobLogs, unread: list[str]) -> JobLogs:
    """The job without its files that are no logs, which are added to `unread`.

    Raises:
        InputError: its log is one of them, or all files are.
    """
    if job.name == STDIN:
        return job
    faults = {file: fault for file in job.files if (fault := _fault(file))}
    own = job.files if job.is_plain_folder else job.files[:1]
    if faults.keys() >= set(own):
        raise InputError(faults[own[0]])
    unread += faults.values()
    return replace(job, files=tuple(file for file in job.files if file not in faults))


def _fault(file: Path) -> str:
    try:
        _check(file)
    except InputError as error:
        return str(error)
    return ""


def _check(file: Path) -> None:
    if file.is_symlink() and not file.exists():
        raise InputError(f"{file}: broken link: no such log file")
    if file.exists() and not file.is_file():
        raise InputError(f"{file}: not a regular file: pipe it in, with - as PATH")
    check_is_text(file)


def _scan(job: JobLogs, rules: RuleSet, story: Story, redactor: Redactor | None) -> None:
    scanner = BlockBuffer(BatchScanner(rules, "default", keep_all=True, redactor=redactor))
    for scanned in chain.from_iterable(scanner.scan_all(watched(_batches(file), [str(file)])) for file in job.files):
        story.lines += scanned.records
        if scanned.newest_ns is not None and story.undated_ns is not None:
            story.newest_ns = max(story.newest_ns or 0, scanned.newest_ns)
        for match in sorted(scanned.matches, key=lambda match: match.event.position):
            story.note(match, rules)


def _batches(file: Path) -> Iterator[Batch]:
    """All batches of one file. It is open only meanwhile: a Ray job may have thousands.

    A line that names no host has none: the host of the person who reads the log does not matter.
    """
    with closing(Sources([str(file)], host="", follow=False)) as sources:
        yield from read_to_the_end(sources)


def _time_ns(text: str) -> int:
    if (time_ns := time_from_field(text)) is None:
        raise click.UsageError(f"--now {text}: not a time: write it like 2026-03-02T09:00:00Z")
    return time_ns


def _with_valid_names(report: Triage) -> Triage:
    evidence = tuple(msgspec.structs.replace(line, file=_shown(line.file)) for line in report.evidence)
    return msgspec.structs.replace(report, files=tuple(map(_shown, report.files)), evidence=evidence)


def _shown(path: str) -> str:
    """A path as valid text: JSON can't hold a name that is not UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
