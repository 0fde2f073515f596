"""The parts of an incident as short texts, inert, without any markup: causes, links, lines, progress, changes; pure."""

from __future__ import annotations

import msgspec

from epicenter.rules.model.incident import ChainLink, Change, Evidence, Progress, RankedCause, Recurrence, RootCause
from epicenter.sinks.text import humanize
from epicenter.sinks.text.sanitize import sanitize


class CauseView(msgspec.Struct, frozen=True):
    """The cause, or another candidate for it; `where` goes on a sentence, `sure` is the confidence as a percentage."""

    failure_class: str
    rule: str
    node: str
    where: str
    confidence: float
    sure: str
    reasons: tuple[str, ...]

    @classmethod
    def of(cls, cause: RootCause | RankedCause) -> CauseView:
        """The cause in texts."""
        return cls(
            failure_class=sanitize(cause.failure_class),
            rule=sanitize(cause.rule),
            node=sanitize(cause.node),
            where=sanitize(humanize.where(cause.node, cause.gpu, cause.rank)),
            confidence=cause.confidence,
            sure=humanize.sure(cause.confidence),
            reasons=tuple(map(sanitize, cause.reasons)),
        )


class LinkView(msgspec.Struct, frozen=True):
    """A link of the chain. `logged` is the clock when a line said so, empty when that was when it began (`onset`)."""

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
        """The link in texts."""
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
        """When it began, without the date: `09:08:45.123`."""
        return self.began[11:]


class EvidenceView(msgspec.Struct, frozen=True):
    """A line or a block word for word, with its line ends; `is_root` when it is what the root cause says."""

    place: str
    node: str
    where: str
    failure_class: str
    text: str
    is_root: bool

    @classmethod
    def of(cls, line: Evidence, root: RootCause) -> EvidenceView:
        """The line in texts; `root` is the cause of its incident."""
        return cls(
            place=sanitize(f"{line.source}:{line.line}"),
            node=sanitize(line.node),
            where=sanitize(humanize.where(line.node)),
            failure_class=sanitize(line.failure_class),
            text=sanitize(line.text, multiline=True),
            is_root=(line.failure_class, line.node) == (root.failure_class, root.node),
        )


class ProgressView(msgspec.Struct, frozen=True):
    """How far a job was. `pace` is `1.5 s a step`, empty when it is not known; `job` is the id as it is, for links."""

    job: str
    name: str
    last_step: int
    seen: str
    pace: str

    @classmethod
    def of(cls, job: str, progress: Progress) -> ProgressView:
        """The progress of a job in texts."""
        pace = f"{progress.step_time_s:.3g} s a step" if progress.step_time_s else ""
        seen = sanitize(humanize.date_and_clock(progress.last_step_time))
        return cls(job, sanitize(job), progress.last_step, seen, pace)

    @property
    def clock(self) -> str:
        """When the last step was seen, without the date."""
        return self.seen[11:]


class ChangeView(msgspec.Struct, frozen=True):
    """Something that happened to the incident itself, at `time` (ISO 8601), shown as `moment`."""

    time: str
    moment: str
    what: str

    @classmethod
    def of(cls, change: Change) -> ChangeView:
        """The change in texts."""
        moment = sanitize(humanize.date_and_clock(change.time, 3))
        return cls(change.time, moment, sanitize(change.what))

    @property
    def clock(self) -> str:
        """The moment without its date."""
        return self.moment[11:]


def recurrence_of(recurrence: Recurrence) -> list[str]:
    """How often the job failed before, in sentences, not inert yet."""
    near = f", each time near step {recurrence.near_step}" if recurrence.near_step is not None else ""
    nodes = ", ".join(recurrence.nodes)
    sentences = [f"The job has failed {recurrence.attempts} times by now{near}."]
    sentences += [f"Against these nodes something spoke every time: {nodes}."] if nodes else []
    sentences += [f"Earlier: {', '.join(recurrence.incidents)}."] if recurrence.incidents else []
    return sentences
