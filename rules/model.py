"""The types that travel between the hops; every time is an integer of nanoseconds since the epoch, UTC.

None of them can be part of a ring, so the garbage collector passes over those that there are many of (`gc=False`).
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Final

import msgspec

NS_PER_S: Final = 1_000_000_000

CLOCK_SKEW_NS: Final = 5 * NS_PER_S
"""How far the clocks of two nodes may differ."""

SEVERITIES: Final = ("info", "warning", "error", "critical")
"""From least to most severe."""

QUIET_ROLES: Final = ("context", "placement", "progress", "harmless")
"""Roles that make no signal: facts about a job, where it runs, a step done, known noise."""


KEPT_DEAD_BYTES: Final = 64 << 10
"""So much of a dead letter is kept; its position leads to the rest."""


def stable_id(*parts: object) -> str:
    """Sixteen hex digits that depend on the parts only, the same on every machine and in every run."""
    return blake2b(ascii(parts).encode(), digest_size=8).hexdigest()


class Position(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """Where a record stands: a file and its line (from 1), or a Kafka `topic/partition` and its offset."""

    source: str
    offset: int


class Origin(msgspec.Struct, frozen=True):
    """Whose lines a plain file holds, for what they don't tell themselves.

    `job` is told by the path or the first lines (`is_job_told`), or is a name of the file's own; empty for the log of a
    machine or a daemon (`is_system`). `hosts` are the nodes of the tasks that srun labels, by their number, empty where
    unknown; `tasks_are_ranks` is false where a task starts several ranks. `is_of_a_job`: the file is that of all tasks.
    `log` is the file, `head_time_ns` the time of its first line that tells one, None when none of the first ones does.
    """

    job: str = ""
    node: str = ""
    rank: int | None = None
    is_job_told: bool = False
    is_system: bool = False
    is_of_a_job: bool = False
    hosts: tuple[str, ...] = ()
    tasks_are_ranks: bool = True
    log: str = ""
    head_time_ns: int | None = None

    def node_of(self, task: int | None) -> str:
        """The node of a task, else that of the file; empty when it is unknown."""
        return (self.hosts[task] if task is not None and task < len(self.hosts) else "") or self.node


class RawRecord(msgspec.Struct, frozen=True, array_like=True):
    """Bytes as they were read, before anything is known about them; of a plain file, with what that tells."""

    value: bytes
    position: Position
    received_ns: int
    key: bytes | None = None
    origin: Origin | None = None


class LogEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One log line with its identity. `source` is empty when the record does not say what it is.

    `log` is the plain file of a line that does not tell its node or job itself.
    """

    event_time_ns: int
    text: str
    position: Position
    has_own_time: bool = True
    cluster: str = "default"
    node: str = ""
    source: str = ""
    job: str = ""
    rank: int | None = None
    pod: str = ""
    container: str = ""
    log: str = ""


class Match(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One rule fits one line, or a line of a block, whose lines are then in `block`.

    `match_id` comes from what the line says, so a second copy is the same match.
    """

    match_id: str
    rule: str
    event: LogEvent
    fields: dict[str, str]
    block: tuple[str, ...] = ()


class Seat(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A banner says where a rank of a job sits, how many there are, or that the job is on the node at all.

    `gpu` is its PCI address. `is_start`: the banner stands at the beginning of an attempt, so that its world size holds
    even when it is smaller than before. `address` is another name of `node`; `pod` is one of the job's. Numbers that
    the banner does not tell are None.
    """

    time_ns: int
    cluster: str
    job: str
    node: str
    rank: int | None = None
    local_rank: int | None = None
    gpu: str = ""
    world_size: int | None = None
    is_start: bool = False
    address: str = ""
    pod: str = ""

    def written(self) -> Seat:
        """The same as messages and snapshots have it: unknown ranks are -1, an unknown world size is 0."""
        return msgspec.structs.replace(
            self,
            rank=-1 if self.rank is None else self.rank,
            local_rank=-1 if self.local_rank is None else self.local_rank,
            world_size=self.world_size or 0,
        )

    def read(self) -> Seat:
        """What a seat that was `written` tells."""
        return msgspec.structs.replace(
            self,
            rank=None if self.rank == -1 else self.rank,
            local_rank=None if self.local_rank == -1 else self.local_rank,
            world_size=self.world_size or None,
        )

    def order(self) -> tuple[object, ...]:
        """By time, cluster, job, node and the rest; what is unknown comes first."""
        return msgspec.structs.astuple(self.written())


class Signal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A rule's condition holds, from one line or from a silence. `onset_ns` is when it began by its own words.

    `log` is the plain file of a line that names neither node nor job.
    """

    signal_id: str
    rule: str
    failure_class: str
    severity: str
    role: str
    event_time_ns: int
    onset_ns: int
    cluster: str
    node: str
    source: str
    job: str
    rank: int | None
    gpu: str
    text: str
    position: Position | None
    fields: dict[str, str]
    block: tuple[str, ...] = ()
    log: str = ""


class Explanation(msgspec.Struct, frozen=True, gc=False):
    """One end of a causal edge: the class and node of the first signal there, and how a cause has such an effect.

    `node` is empty when the signal names none.
    """

    failure_class: str = msgspec.field(name="class")
    node: str
    why: str


class RootCause(msgspec.Struct, frozen=True):
    """The signal that explains the others. `confidence` lies in 0..1; `reasons` say why, in words.

    `explains` are its effects, at most three, one a class; `explained_by` is what brings it about. Documents of older
    versions have neither.
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


class ChainLink(msgspec.Struct, frozen=True):
    """One step of the cascade, as the reports show it; times are ISO 8601, UTC."""

    event_time: str
    onset: str
    node: str
    rank: int | None
    failure_class: str = msgspec.field(name="class")
    role: str
    text: str


class Evidence(msgspec.Struct, frozen=True):
    """One line, word for word, with where it stands (`line` counts from 1 in a file, from 0 in a partition)."""

    source: str
    line: int
    node: str
    failure_class: str = msgspec.field(name="class")
    text: str


class BlastRadius(msgspec.Struct, frozen=True):
    """How many nodes, ranks, jobs and GPUs the incident reaches; `gpus` counts a rank whose GPU is not named as one."""

    nodes: int
    ranks: int
    jobs: int
    gpus: int = 0


class Cost(msgspec.Struct, frozen=True):
    """What the incident's jobs lost; None is what is not known, and the GPU-hours then are those known of.

    `steps_lost` have to be done again, from `since_checkpoint_step` on. `gpus` are all that the jobs hold.
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


class Change(msgspec.Struct, frozen=True):
    """Something that happened to an incident, in words; `time` is ISO 8601, UTC."""

    time: str
    what: str


class Recurrence(msgspec.Struct, frozen=True):
    """The job has failed before. `near_step` is given when all runs failed near one step, this one included; `nodes`
    are those that something spoke against every time; `incidents` are the earlier ones, oldest first.
    """

    attempts: int
    near_step: int | None
    classes: tuple[str, ...]
    nodes: tuple[str, ...]
    incidents: tuple[str, ...]


class Incident(msgspec.Struct, frozen=True):
    """One real failure: the document that every command prints and the store keeps. `progress` is by job.

    `candidates` are the ranked root causes, the one of `root_cause` first. `missing` says in words what evidence there
    should be and is not; when it is empty, the evidence is complete.
    `verdict` says what a silence in it means (hung, rank-dead, ...); empty when none of its signals is a silence.
    `reopened` says how often it came back after it was resolved.
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


class Action(msgspec.Struct, frozen=True):
    """What a machine may do about an incident; the project itself never does it.

    `kind` is drain-node, reset-gpu, reboot-node, restart-job, raise-memory, wait or none; the other fields are its
    parameters, empty where they don't apply. `resume_step` is that of the newest complete checkpoint. Nothing is to be
    done unless `is_allowed`; `why` says what keeps it back, or what it is for.
    """

    kind: str = "none"
    nodes: tuple[str, ...] = ()
    gpu: str = ""
    jobs: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    resume_step: int | None = None
    is_dry_run: bool = True
    is_allowed: bool = False
    why: str = ""


class Brief(msgspec.Struct, frozen=True):
    """An incident in a line: what the other members of a group are told with."""

    incident_id: str
    status: str
    severity: str
    failure_class: str = msgspec.field(name="class")
    title: str
    cluster: str
    node: str
    jobs: tuple[str, ...]
    first_seen: str
    last_seen: str

    @classmethod
    def of(cls, incident: Incident) -> Brief:
        """The incident in short."""
        return cls(
            incident_id=incident.incident_id,
            status=incident.status,
            severity=incident.severity,
            failure_class=incident.failure_class,
            title=incident.title,
            cluster=incident.cluster,
            node=incident.root_cause.node,
            jobs=incident.jobs,
            first_seen=incident.first_seen,
            last_seen=incident.last_seen,
        )


class Notification(msgspec.Struct, frozen=True):
    """One message to one target, about a group of incidents: in most cases about one.

    `kind` is opened, reopened, updated (the cause, the reach or the severity changed), repeated (it goes on, and nobody
    acknowledged it), escalated, acknowledged or resolved (over, or merged). `event_time` is that of the line, silence
    or quiet time that made it news, ISO 8601. `incident` is the worst of the group, `also` the others, at most
    `MOST_BRIEFS`; `more` counts the rest. `labels` are those of `incident` that routes see. `link` leads to the page,
    empty when its address is not configured.
    """

    notification_id: str
    kind: str
    event_time: str
    incident: Incident
    target: str = ""
    group: str = ""
    reason: str = ""
    also: tuple[Brief, ...] = ()
    more: int = 0
    labels: dict[str, tuple[str, ...]] = {}
    action: Action = Action()
    link: str = ""


MOST_BRIEFS: Final = 50


class Acknowledgement(msgspec.Struct, frozen=True):
    """Somebody takes care of an incident: it is neither repeated nor escalated while its news are the same.

    The newest word on an incident counts, whoever it is from; one that `is_taken_back` says that nobody does any more.
    """

    incident_id: str
    who: str
    given_ns: int
    note: str = ""
    is_taken_back: bool = False


class Joined(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A signal with the incident that it went into; what that one is merged into later is for the incident to say."""

    incident_id: str
    signal: Signal


class Gap(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Lines are missing: which `kind` of gap, of whom, and how many `records`, None when that is unknown.

    `source` is where they should stand. For a silence, `ends_ns` is when it was declared.
    """

    gap_id: str
    kind: str
    cluster: str
    node: str
    job: str
    source: str
    begins_ns: int
    ends_ns: int
    records: int | None
    text: str


class Outcome(StrEnum):
    """What became of a notification at one target, or why there was none. The values stand in messages and rows."""

    SENT = "sent"
    REFUSED = "refused"
    WAITS = "waits"
    HELD = "held"
    """A silence within its grace period."""

    REFUTED = "refuted"
    """A silence that was over within it."""

    MAINTENANCE = "maintenance"
    SILENCED = "silenced"
    INHIBITED = "inhibited"
    ACKNOWLEDGED = "acknowledged"
    UNROUTED = "unrouted"
    """No route leads anywhere."""


class Delivery(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a notification at one target, or why there was none.

    `event_time` is the notification's, ISO 8601; `decided_ns` is the clock's; `reason` says why in words.
    """

    notification_id: str
    target: str
    outcome: Outcome
    incident_id: str
    revision: int
    kind: str
    event_time: str
    reason: str
    decided_ns: int


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One value of one of a process' metrics."""

    time_s: int
    process: str
    name: str
    labels: dict[str, str]
    value: float


class DeadLetterKind(StrEnum):
    """Why a record could not be processed. The values stand in messages and in the store, so they never change."""

    UNKNOWN = ""
    """Written by a version that knew no kinds, or by a newer one that knows more."""

    EMPTY = "empty"
    TOO_LARGE = "too-large"
    NOT_JSON = "not-json"
    WRONG_SHAPE = "wrong-shape"
    NO_LOG_LINE = "no-log-line"
    """A record of another product, such as a metric or a trace."""

    CORRUPT_BATCH = "corrupt-batch"
    """A whole Kafka batch that can't be unpacked; its bytes are no record."""

    NOT_OURS = "not-ours"
    """Something on our own topics that we did not write, or can't read."""

    ROW_REFUSED = "row-refused"
    NOTIFICATION_REFUSED = "notification-refused"

    @classmethod
    def _missing_(cls, value: object) -> DeadLetterKind:
        return cls.UNKNOWN


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that could not be processed, kept with its position; `value` may be its first part only.

    `kind` is what programs go by, `reason` says the same to people, with details.
    """

    dead_letter_id: str
    reason: str
    position: Position
    size_bytes: int
    value: bytes
    key: bytes | None
    received_ns: int
    kind: DeadLetterKind = DeadLetterKind.UNKNOWN

    @classmethod
    def of(
        cls,
        kind: DeadLetterKind,
        reason: str,
        position: Position,
        value: bytes,
        key: bytes | None = None,
        received_ns: int = 0,
    ) -> DeadLetter:
        """The dead letter of the record at this position; the same record gives the same id.

        Its bytes are part of the id: a topic that was made again has other records at the same positions.
        """
        identity = stable_id(position.source, position.offset, value[:KEPT_DEAD_BYTES])
        return cls(identity, reason, position, len(value), value[:KEPT_DEAD_BYTES], key, received_ns, kind)
