"""An incident: the document that every command prints and the store keeps."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Explanation(msgspec.Struct, frozen=True, gc=False):
    """One end of a causal edge: the class and node of its first signal, and why the cause has this effect.

    `node` is empty when the signal names none.
    """

    failure_class: str = msgspec.field(name="class")
    node: str
    why: str


class RootCause(msgspec.Struct, frozen=True):
    """The signal that explains the others. `confidence` lies in 0..1; `reasons` say why, in words.

    `explains` are its effects, at most three, one per class; `explained_by` is its own cause. `fields` are what its
    line says, by name (`peer`, `path`, `pid`). Documents of older versions have none of these.
    """

    failure_class: str = msgspec.field(name="class")
    rule: str
    node: str
    rank: int | None
    gpu: str
    event_time: str
    confidence: float
    reasons: tuple[str, ...]
    explains: tuple[Explanation, ...] = ()
    explained_by: Explanation | None = None
    fields: dict[str, str] = {}


class RankedCause(msgspec.Struct, frozen=True):
    """A candidate for the root cause; `confidence` lies in 0..1 and falls from one candidate to the next.

    `explains` and `explained_by` are as in `RootCause`.
    """

    failure_class: str = msgspec.field(name="class")
    rule: str
    node: str
    rank: int | None
    gpu: str
    confidence: float
    reasons: tuple[str, ...]
    explains: tuple[Explanation, ...] = ()
    explained_by: Explanation | None = None


class NotKnown(msgspec.Struct, frozen=True):
    """That the cause is none of the candidates, because evidence is missing. `confidence` lies in 0..1.

    `failure_class` and `node` are what is known all the same; empty if not. `settled_by` is the evidence that would
    show the cause, in words.
    """

    confidence: float
    failure_class: str = msgspec.field(name="class")
    node: str
    settled_by: tuple[str, ...]


class ChainLink(msgspec.Struct, frozen=True):
    """One step of the cascade, as the reports show it; times are ISO 8601, UTC.

    A line that comes after a wait has an `onset` before its `event_time`, and not to the moment: it lies between
    `onset_earliest` and `onset_latest`. Both are empty where the line comes at the onset.
    """

    event_time: str
    onset: str
    node: str
    rank: int | None
    failure_class: str = msgspec.field(name="class")
    role: str
    text: str
    onset_earliest: str = ""
    onset_latest: str = ""


class Evidence(msgspec.Struct, frozen=True):
    """One line, word for word, with its position (`line` counts from 1 in a file, from 0 in a partition)."""

    source: str
    line: int
    node: str
    failure_class: str = msgspec.field(name="class")
    text: str


class BlastRadius(msgspec.Struct, frozen=True):
    """How many nodes, ranks, jobs and GPUs the incident affects; a rank without a known GPU counts as one GPU."""

    nodes: int
    ranks: int
    jobs: int
    gpus: int = 0


class Cost(msgspec.Struct, frozen=True):
    """What the incident's jobs lost; None is unknown. GPU-hours are then those that are known.

    `steps_lost` must be repeated, from `since_checkpoint_step` on. `gpus` are all that the jobs hold.
    """

    steps_lost: int | None = None
    gpu_hours_lost: float | None = None
    gpus: int | None = None
    since_checkpoint_step: int | None = None


class Progress(msgspec.Struct, frozen=True):
    """How far a job had come; `step_time_s` is the median over its newest steps."""

    last_step: int
    last_step_time: str
    step_time_s: float | None


class Check(msgspec.Struct, frozen=True):
    """A check that the program made for the reader, with its answer, both in words."""

    question: str
    answer: str


class Command(msgspec.Struct, frozen=True):
    """One line for the reader's shell, quoted and ready to paste. `scheduler` (slurm, kubernetes) is whose tool it is;
    empty for tools of every machine.
    """

    purpose: str
    scheduler: str
    text: str


class Change(msgspec.Struct, frozen=True):
    """Something that happened to an incident, in words; `time` is ISO 8601, UTC."""

    time: str
    what: str


class Recurrence(msgspec.Struct, frozen=True):
    """The job has failed before. `near_step` is given if all runs, this one included, failed near one step; `nodes`
    were suspected in most of them; `incidents` are the earlier ones, oldest first.
    """

    attempts: int
    near_step: int | None
    classes: tuple[str, ...]
    nodes: tuple[str, ...]
    incidents: tuple[str, ...]


class Resolution(StrEnum):
    """What ended an incident. Whether it is over is not known after `QUIET`, an hour without a sign of it, and after
    `STATE_LOST`: the state that could tell was lost.
    """

    NONE = ""
    PROGRESS = "progress"
    CLEARED = "cleared"
    QUIET = "quiet"
    STATE_LOST = "state-lost"


class Incident(msgspec.Struct, frozen=True):
    """One real failure: the document that every command prints and the store keeps. `progress` is by job.

    `candidates` are the ranked root causes, the one of `root_cause` first. `missing` is the missing evidence, in words;
    empty if it is complete. `verdict` is what missing logs mean (hung, rank-dead, ...); empty if no logs are missing.
    `resolved_by` is what ended it (`Resolution`). `reopened` counts how often it came back after it was resolved.
    `not_known` is given where evidence is missing that could show another cause. `checks` are made already;
    `next_steps` are left, and `commands` carry out its `action`.
    """

    incident_id: str
    revision: int
    status: str
    failure_class: str = msgspec.field(name="class")
    severity: str
    title: str
    cluster: str
    jobs: tuple[str, ...]
    nodes: tuple[str, ...]
    root_cause: RootCause
    chain: tuple[ChainLink, ...]
    blast_radius: BlastRadius
    progress: dict[str, Progress]
    first_seen: str
    last_seen: str
    signal_count: int
    evidence: tuple[Evidence, ...]
    next_steps: tuple[str, ...]
    action: str
    merged_into: str = ""
    history: tuple[Change, ...] = ()
    recurrence: Recurrence | None = None
    candidates: tuple[RankedCause, ...] = ()
    cost: Cost = Cost()
    missing: tuple[str, ...] = ()
    verdict: str = ""
    reopened: int = 0
    resolved_by: str = Resolution.NONE
    checks: tuple[Check, ...] = ()
    commands: tuple[Command, ...] = ()
    not_known: NotKnown | None = None
