"""The parts of an incident as short, sanitized texts without markup: causes, links, lines, progress, changes. Pure."""

from __future__ import annotations

import msgspec

from epicenter.rules.model.incident import (
    ChainLink,
    Change,
    Check,
    Command,
    Evidence,
    Progress,
    RankedCause,
    Recurrence,
    RootCause,
)
from epicenter.rules.model.job_names import job_in_words
from epicenter.sinks.text import humanize
from epicenter.sinks.text.sanitize import sanitize


class CauseView(msgspec.Struct, frozen=True):
    """The cause, or another candidate. `where` continues a sentence; `confidence_percent` is such as `87%`."""

    failure_class: str
    rule: str
    node: str
    where: str
    confidence: float
    confidence_percent: str
    reasons: tuple[str, ...]

    @classmethod
    def of(cls, cause: RootCause | RankedCause) -> CauseView:
        """The view of a cause."""
        return cls(
            failure_class=sanitize(cause.failure_class),
            rule=sanitize(cause.rule),
            node=sanitize(cause.node),
            where=sanitize(humanize.where(cause.node, cause.gpu, cause.rank)),
            confidence=cause.confidence,
            confidence_percent=humanize.percent(cause.confidence),
            reasons=tuple(map(sanitize, cause.reasons)),
        )


class LinkView(msgspec.Struct, frozen=True):
    """A link of the chain. `logged` is the time of its log line, empty when that is the same as its `onset`."""

    onset: str
    began: str
    logged: str
    role: str
    failure_class: str
    node: str
    rank: int | None
    where: str
    text: str

    @classmethod
    def of(cls, link: ChainLink) -> LinkView:
        """The view of a link."""
        return cls(
            onset=link.onset,
            began=sanitize(humanize.date_and_clock(link.onset, 3)),
            logged="" if link.onset == link.event_time else sanitize(humanize.date_and_clock(link.event_time, 3)[11:]),
            role=sanitize(link.role),
            failure_class=sanitize(link.failure_class),
            node=sanitize(link.node),
            rank=link.rank,
            where=sanitize(humanize.where(link.node, rank=link.rank)),
            text=sanitize(link.text),
        )

    @property
    def clock(self) -> str:
        """The onset without its date: `09:08:45.123`."""
        return self.began[11:]


class EvidenceView(msgspec.Struct, frozen=True):
    """A log line or block verbatim; `is_root` marks lines of the root cause."""

    place: str
    node: str
    where: str
    failure_class: str
    text: str
    is_root: bool

    @classmethod
    def of(cls, line: Evidence, root: RootCause) -> EvidenceView:
        """The view of a line; `root` is its incident's root cause."""
        return cls(
            place=sanitize(f"{line.source}:{line.line}"),
            node=sanitize(line.node),
            where=sanitize(humanize.where(line.node)),
            failure_class=sanitize(line.failure_class),
            text=sanitize(line.text, multiline=True),
            is_root=(line.failure_class, line.node) == (root.failure_class, root.node),
        )


class CheckView(msgspec.Struct, frozen=True):
    """A check that was made, and its answer."""

    question: str
    answer: str

    @classmethod
    def of(cls, check: Check) -> CheckView:
        """The view of a check."""
        return cls(sanitize(check.question), sanitize(check.answer))


class CommandView(msgspec.Struct, frozen=True):
    """A command to paste: what it is for, of which scheduler, and its text."""

    purpose: str
    scheduler: str
    text: str

    @classmethod
    def of(cls, command: Command) -> CommandView:
        """The view of a command."""
        return cls(sanitize(command.purpose), sanitize(command.scheduler), sanitize(command.text))


class ProgressView(msgspec.Struct, frozen=True):
    """A job's progress. `pace` is as in `1.5 s a step`, empty if unknown; `job` is for links; `name` is `job 7801`."""

    job: str
    name: str
    last_step: int
    seen: str
    pace: str

    @classmethod
    def of(cls, job: str, progress: Progress) -> ProgressView:
        """The view of a job's progress."""
        pace = f"{progress.step_time_s:.3g} s a step" if progress.step_time_s else ""
        seen = sanitize(humanize.date_and_clock(progress.last_step_time))
        return cls(job, sanitize(job_in_words(job)), progress.last_step, seen, pace)

    @property
    def clock(self) -> str:
        """The time of the last step, without its date."""
        return self.seen[11:]


class ChangeView(msgspec.Struct, frozen=True):
    """A change of the incident at `time` (ISO 8601); `shown_time` is the formatted time."""

    time: str
    shown_time: str
    what: str

    @classmethod
    def of(cls, change: Change) -> ChangeView:
        """The view of a change."""
        shown_time = sanitize(humanize.date_and_clock(change.time, 3))
        return cls(change.time, shown_time, sanitize(change.what))

    @property
    def clock(self) -> str:
        """The time of the change, without its date."""
        return self.shown_time[11:]


def recurrence_of(recurrence: Recurrence) -> list[str]:
    """Sentences about earlier failures of the job; not sanitized."""
    near = f", each time near step {recurrence.near_step}" if recurrence.near_step is not None else ""
    nodes = ", ".join(recurrence.nodes)
    sentences = [f"This job has failed {recurrence.attempts} times{near}."]
    sentences += [f"These nodes were involved in most of them: {nodes}."] if nodes else []
    sentences += [f"Earlier incidents: {', '.join(recurrence.incidents)}."] if recurrence.incidents else []
    return sentences
