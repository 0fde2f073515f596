"""What the store records of a rule's lines in addition to matches and incidents."""

from __future__ import annotations

from typing import Final, Literal, get_args

from pydantic import Field, model_validator

from epicenter.rules.documents.strict import Strict

CapacityKind = Literal[
    "submitted",
    "queued",
    "pending",
    "started",
    "preempted",
    "idle",
    "idle-while-queued",
    "short-of-capacity",
    "waits-long",
]
CAPACITY_KINDS: Final[tuple[str, ...]] = get_args(CapacityKind)
"""In order: a job was submitted; it began to wait; it or a pod still waits; it got its nodes; it lost them to another
job. Nodes are idle; nodes are idle for long while jobs wait; demand exceeds capacity; something waits very long."""


class Number(Strict):
    """The name under which a field's number is stored, and the factor to that name's unit."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    times: float = Field(default=1.0, gt=0)


class Recorded(Strict):
    """`capacity`: a kind of capacity event. `gap`: a kind of missing lines. `numbers`: measurements, by field."""

    capacity: CapacityKind | Literal[""] = ""
    gap: Literal["", "lines-dropped", "overwritten"] = ""
    numbers: dict[str, Number] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_not_empty(self) -> Recorded:
        if not (self.capacity or self.gap or self.numbers):
            raise ValueError("write `capacity`, `gap` or `numbers`, or leave `recorded_as` out")
        return self
