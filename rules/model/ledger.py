"""Records for the store: evidence gaps, deliveries, metric samples, dead letters."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from epicenter.rules.errors import DeadLetterKind
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.records import Position
from epicenter.rules.model.signals import Signal

MAX_KEPT_DEAD_BYTES: Final = 64 << 10
"""At most this much of a dead letter is kept; its position leads to the rest."""


class Joined(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A signal with the incident that it joined; a later merge is recorded in the incident."""

    incident_id: str
    signal: Signal


class Gap(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Missing lines: the `kind` of gap, whose lines, and how many `records` (None if unknown).

    `source` is where they should be. For a verdict, `ends_ns` is the time of the verdict.
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


class JobPhase(StrEnum):
    """The state of a job by its steps and by what its missing logs mean. The values are stored and sent."""

    NO_STEP = "no-step"
    """No step was seen yet, or none is numbered."""

    IN_STEP = "in-step"
    BEHIND = "behind"
    """It advances, but one rank holds it back, or some ranks are at an earlier step."""

    STALLED = "stalled"
    NEVER_STARTED = "never-started"
    LOGS_MISSING = "logs-missing"
    """No logs from the whole cluster: whether the job advances is not known."""

    ENDED = "ended"


class JobEnd(StrEnum):
    """How a job ended, as far as its lines say. The values are stored and sent."""

    UNKNOWN = ""
    COMPLETED = "completed"
    FAILED = "failed"
    TERMINATED = "terminated"
    """By a SIGTERM; why it came is not known."""

    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    TIME_LIMIT = "time-limit"
    UNREPORTED = "unreported"
    """Its lines stopped, and none reports an end."""


class JobState(msgspec.Struct, frozen=True, array_like=True):
    """The state of a job as of `time_ns`, by its liveness.

    `since_ns` is its last step, or its first line. `attempt_ns` is when its newest attempt began; earlier steps no
    longer count. `verdict` is the liveness verdict if it does not advance, with the `node` and `rank` that stopped
    first, as far as they are known. Of the ranks that report steps, those `behind` are at an earlier step, those
    `quiet` no longer report any although the job advances. `lost_nodes` stopped logging although the job advances.
    """

    cluster: str
    job: str
    time_ns: int
    phase: JobPhase
    since_ns: int
    attempt_ns: int
    end: JobEnd = JobEnd.UNKNOWN
    verdict: str = ""
    node: str = ""
    rank: int | None = None
    text: str = ""
    world_size: int = 0
    behind: tuple[int, ...] = ()
    quiet: tuple[int, ...] = ()
    lost_nodes: tuple[str, ...] = ()


class Outcome(StrEnum):
    """What became of a notification at one target, or why there was none. The values are stored and sent."""

    SENT = "sent"
    REFUSED = "refused"
    WAITS = "waits"
    PENDING = "held"
    """A liveness verdict within its grace period."""

    REFUTED = "refuted"
    """A liveness verdict that was refuted within it."""

    MAINTENANCE = "maintenance"
    SILENCED = "silenced"
    INHIBITED = "inhibited"
    ACKNOWLEDGED = "acknowledged"
    UNROUTED = "unrouted"
    """No route has a target for it."""


class Delivery(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a notification at one target, or why there was none.

    `event_time` is the notification's, ISO 8601; `decided_ns` is the clock's; `reason` is why, in words.
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
    """One value of a metric of one process."""

    time_s: int
    process: str
    name: str
    labels: dict[str, str]
    value: float


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that could not be processed, kept with its position; `value` may be its first part only.

    `kind` is for programs; `reason` is the same for people, with details.
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

        Its bytes are part of the id: a recreated topic has other records at the same positions.
        """
        identity = stable_id(position.source, position.offset, value[:MAX_KEPT_DEAD_BYTES])
        return cls(identity, reason, position, len(value), value[:MAX_KEPT_DEAD_BYTES], key, received_ns, kind)
