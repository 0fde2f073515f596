"""The report on one job's log, for programs; the field names are a contract."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from epicenter.rules.model.incident import Incident


class Status(StrEnum):
    """The state of a job."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RUNNING = "running"
    HANGING = "hanging"
    UNKNOWN_DEATH = "unknown-death"
    NO_JOB = "no-job"

    @property
    def is_live(self) -> bool:
        """Whether the job has not ended."""
        return self in (Status.RUNNING, Status.HANGING)

    @property
    def is_well(self) -> bool:
        """Whether it is healthy, so that there is nothing to explain."""
        return self in (Status.COMPLETED, Status.RUNNING)


class EvidenceLine(msgspec.Struct, frozen=True):
    """One line or block, word for word; `file` is empty for the log itself, lines count from 1."""

    line: int
    text: str
    failure_class: str = msgspec.field(name="class")
    file: str = ""


class FindingReport(msgspec.Struct, frozen=True):
    """All lines of one class. `parent` is the class of the job-log-triage table that it counts as."""

    failure_class: str = msgspec.field(name="class")
    parent: str
    rule: str
    title: str
    severity: str
    role: str
    count: int
    first_line: int
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    fields: dict[str, str]


class Check(msgspec.Struct, frozen=True):
    """One question of a checklist with the answer from the log; `quote` is a line of it, word for word."""

    question: str
    answer: str
    quote: str = ""


class ProgressReport(msgspec.Struct, frozen=True):
    """How far the run got. Steps are numbered as the framework prints them; None if the log does not show it.

    `steps_done` counts all steps that the job has completed, including earlier runs: with numbers from 0, one more than
    the last number. `steps_lost` are the steps after the last periodic checkpoint, `time_left_s` is what a healthy run
    would still need. `is_time_estimated`: the last step's line has no time, so its time follows from step times and
    lines nearby. `bar_step` and `bar_total` are those of a progress bar without a name, where no line has a step: it
    may count anything. `is_rounded`: the bar's numbers have three digits (`1.20k`).
    """

    start: str = "unknown"
    restored_step: int | None = None
    first_step: int | None = None
    last_step: int | None = None
    last_step_time: str | None = None
    is_time_estimated: bool = False
    steps_this_run: int = 0
    steps_done: int = 0
    total_steps: int | None = None
    percent: float | None = None
    step_time_s: float | None = None
    expected_step_now: int | None = None
    checkpoint_period: int | None = None
    last_checkpoint_step: int | None = None
    steps_lost: int | None = None
    time_lost_s: float | None = None
    time_left_s: float | None = None
    attempts: int = 1
    bar_step: int | None = None
    bar_total: int | None = None
    is_rounded: bool = False


class FailedAttempt(msgspec.Struct, frozen=True):
    """An attempt before the newest one, and what it failed of; `time` is None if its line has none, as is `last_step`.

    `line` counts from 1; `file` is empty for the log itself.
    """

    attempt: int
    failure_class: str = msgspec.field(name="class")
    title: str
    node: str
    rank: int | None
    last_step: int | None
    time: str | None
    line: int
    file: str = ""


class OtherIncident(msgspec.Struct, frozen=True):
    """An incident of the job besides the one that explains it; `time` is that of its root cause, if known."""

    id: str
    failure_class: str = msgspec.field(name="class")
    title: str
    time: str | None


class UnnamedReport(msgspec.Struct, frozen=True):
    """A message that looks like a failure and that no rule names. `text` is its first line, word for word.

    `unusual` says in words what sets it apart: that one rank alone prints it, or that it is new at the end.
    """

    template: str
    text: str
    count: int
    first_line: int
    last_line: int
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    file: str = ""
    unusual: tuple[str, ...] = ()


class Triage(msgspec.Struct, frozen=True):
    """What happened to one job. `primary` is None if nothing failed; `classes` are all that the lines show.

    `job` is its name, as a path, a line or an envelope states it; empty if none does. `name` is then the name of its
    file, and empty for what belongs to no job. `incident` is the one that explains it, as `epicenter replay` prints it;
    None if there is none. `incidents` are the ids of all of its incidents, `other_incidents` all but that one. `family`
    is the class of the job-log-triage table that the primary one counts as. `confidence` lies in 0..1. `dead` counts
    the records that could not be processed. `failed_attempts` are those before the newest one, oldest first: the other
    fields are about the newest. `faults` say what of its files could not be read. `unnamed` are messages that look like
    failures and that no rule names, the most unusual first.
    """

    path: str
    status: Status
    primary: str | None
    family: str | None
    classes: tuple[str, ...]
    stage: str | None
    summary: str
    evidence: tuple[EvidenceLine, ...]
    progress: ProgressReport
    findings: tuple[FindingReport, ...]
    next_steps: tuple[str, ...]
    action: str
    confidence: float | None
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    cascade: tuple[str, ...]
    dashboards: tuple[str, ...]
    files: tuple[str, ...]
    lines: int
    job: str = ""
    name: str = ""
    dead: int = 0
    incident: Incident | None = None
    incidents: tuple[str, ...] = ()
    other_incidents: tuple[OtherIncident, ...] = ()
    failed_attempts: tuple[FailedAttempt, ...] = ()
    faults: tuple[str, ...] = ()
    unnamed: tuple[UnnamedReport, ...] = ()
