"""The files of a job -> the reports on the jobs in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.jobs import JobLogs, jobs_at
from epicenter.ingest.collect.source import Sources, read_to_the_end
from epicenter.ingest.provenance.last_lines import last_lines
from epicenter.ingest.provenance.log_file import check_is_log
from epicenter.ingest.provenance.stated import NOTHING, Stated
from epicenter.rules.errors import InputError
from epicenter.rules.model.job_names import is_named_job
from epicenter.rules.model.records import Origin
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.redact.redactor import Redactor
from epicenter.rules.report.known_times import with_known_times
from epicenter.rules.triage.document import Triage
from epicenter.rules.triage.report import Circumstances, triage
from epicenter.rules.triage.sections import NODES
from epicenter.rules.triage.story import Story
from epicenter.stream.scan.prefilter import scanner_of
from epicenter.stream.scan.redaction import lines_without_secrets
from epicenter.stream.scan.scan import BatchScanner
from epicenter.stream.triage.reading import Section, read_sections

STDIN: Final = "-"

Watch = Callable[[Iterable[Batch], Sources], Iterable[Batch]]
"""Passes on the batches of these sources, and may show how far the reading is."""


def unwatched(batches: Iterable[Batch], sources: Sources) -> Iterable[Batch]:
    """The same batches."""
    return batches


class JobReader:
    """Reads the files of jobs with one set of rules; without credentials if there is a redactor."""

    def __init__(
        self,
        rules: RuleSet,
        cluster: str,
        redactor: Redactor | None = None,
        stated: Stated = NOTHING,
        watch: Watch = unwatched,
    ):
        self._rules = rules
        self._watch = watch
        self.stated = stated
        self._patterns = scanner_of(rules, in_triage=True)
        self._cluster = cluster
        self._redactor = redactor

    def reports(self, job: JobLogs, circumstances: Circumstances, unread: list[str]) -> list[Triage]:
        """The reports on the jobs in these files: one, or in a folder of all nodes' logs one for each job.

        What can only be read in part is added to `unread`.

        Raises:
            InputError: one can't be read.
        """
        sections = self.sections(job, circumstances, unread)
        found = (triage(story, incidents, self._rules, circumstances) for story, incidents in sections)
        return list(map(_with_valid_names, found))

    def readable(self, job: JobLogs, unread: list[str]) -> JobLogs:
        """The job without its empty files and those that are no logs, which are added to `unread`.

        Raises:
            InputError: its log is one of them, or all files are.
        """
        if job.name == STDIN:
            return job
        files, faults = [], {}
        for file in job.files:
            try:
                files += [file] * check_is_log(file)
            except InputError as error:
                faults[file] = self.stated.shown(str(error))
        own = job.files if job.is_plain_folder else job.files[:1]
        if not {*own} & {*files}:
            raise InputError(
                next((faults[file] for file in own if file in faults), f"{own[0]}: empty: no line to read")
            )
        unread += faults.values()
        return replace(job, files=tuple(files))

    def sections(self, job: JobLogs, circumstances: Circumstances, unread: list[str]) -> list[Section]:
        """As `read_sections`, for these files."""
        scanner = BatchScanner(
            self._rules, self._cluster, self._patterns, keep_all=True, redactor=self._redactor, may_be_pasted=True
        )
        origins, faults = _Origins(), list[str]()

        sections = read_sections(
            origins.noted(self._batches(job, faults)),
            scanner,
            self._rules,
            partial(self._story, job),
            circumstances,
            is_one_log=not job.is_plain_folder,
        )
        for story, _ in sections:
            story.faults = tuple(fault for fault in faults if origins.may_concern(story, fault))
        unread += [fault for fault in faults if fault not in unread]
        return sections

    def _story(self, job: JobLogs, name: str) -> Story:
        """An empty story of the job with this name in the engine."""
        is_piped = job.name == STDIN
        story = Story(
            path=self._shown(job.name),
            job=_shown(name) if is_named_job(name) else "",
            jobs=frozenset({name} - {NODES}),
            files=("stdin",) if is_piped else tuple(self.stated.shown(str(file)) for file in job.files),
            is_folder=job.is_plain_folder,
            slurm_id=job.slurm_id,
            folder=self._shown(str(job.folder or "")),
            artifacts=tuple(map(self._shown, job.artifacts)),
        )
        if not is_piped and not job.is_plain_folder:
            tail, story.is_cut_off = last_lines(job.files[0])
            story.tail = tuple(lines_without_secrets(self._redactor, tail))
        return story

    def _shown(self, path: str) -> str:
        return _shown(self.stated.shown(path))

    def _batches(self, job: JobLogs, unread: list[str]) -> Iterator[Batch]:
        """All batches of the job's files."""
        if job.is_plain_folder and job.folder:
            yield from self._batches_at(str(job.folder), unread)
        else:
            yield from _of_one_job(batch for file in job.files for batch in self._batches_at(str(file), unread))

    def _batches_at(self, path: str, unread: list[str]) -> Iterator[Batch]:
        """All batches of a file or folder. It is open only meanwhile: a Ray job may have thousands.

        A line that names no host has none: the host of the person who reads the log does not matter.
        """
        with closing(Sources([path], host="", follow=False, stated=self.stated)) as sources:
            yield from self._watch(read_to_the_end(sources), sources)
            faults = sources.faults()
        if path == STDIN and faults:
            raise InputError(*faults)
        unread += [fault for fault in faults if fault not in unread]


def reports_at(
    path: str, outputs: Path, reader: JobReader, circumstances: Circumstances, unread: list[str]
) -> Iterator[Triage]:
    """One report a job. Unreadable files are added to `unread` and don't stop the others."""
    try:
        jobs = jobs_at(path, outputs, reader.stated.log_names)
    except InputError as error:
        unread += [*reader.stated.faults_at(path), reader.stated.shown(str(error))]
        return
    for job in jobs:
        try:
            yield from reader.reports(reader.readable(job, unread), circumstances, unread)
        except InputError as error:
            unread.append(reader.stated.shown(str(error)))


class _Origins:
    """Which jobs the files of a folder are about."""

    def __init__(self) -> None:
        self._jobs_by_file: dict[str, set[str]] = {}

    def noted(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches."""
        for batch in batches:
            if batch.origin:
                self._jobs_by_file.setdefault(batch.source, set()).add(batch.origin.job)
            yield batch

    def may_concern(self, story: Story, fault: str) -> bool:
        """Whether the fault of a file, which begins with its name, is one of the job; also if its job is unknown."""
        jobs = next((jobs for file, jobs in self._jobs_by_file.items() if fault.startswith(f"{file}: ")), set())
        return not jobs or not jobs.isdisjoint(story.jobs)


def _of_one_job(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches of a job's files: all belong to the job of the first one, unless they state another."""
    first: Origin | None = None
    for batch in batches:
        first = first or batch.origin
        if first and batch.origin and batch.origin.job and not is_named_job(batch.origin.job):
            batch = replace(batch, origin=msgspec.structs.replace(batch.origin, job=first.job))
        yield batch


def _with_valid_names(report: Triage) -> Triage:
    """The report without bytes of file names that are not UTF-8, which JSON can't hold, and without unknown times."""
    report = msgspec.structs.replace(report, incident=report.incident and with_known_times(report.incident))
    return msgspec.convert(_valid(msgspec.to_builtins(report)), Triage)


def _valid(document: Any) -> Any:
    if isinstance(document, str):
        return _shown(document)
    if isinstance(document, dict):
        return {name: _valid(content) for name, content in document.items()}
    return [_valid(part) for part in document] if isinstance(document, list | tuple) else document


def _shown(path: str) -> str:
    """A path as valid text: JSON can't hold a name that is not UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
