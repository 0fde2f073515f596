"""What the store keeps beside matches and incidents: what a rule's lines are kept as."""

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
"""A job was handed in; it begins to wait; it, or a pod, still waits; it got its nodes; it lost them to another one.
Nodes run nothing; they do so for long while others wait; more is asked for than there is; something waits very long."""


class Number(Strict):
    """Under which name a field's number is kept, and how many of the name's units one of the field's is."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    times: float = Field(default=1.0, gt=0)


class Recorded(Strict):
    """`capacity`: an event of that kind. `gap`: lines are missing, of that kind. `numbers`: measurements, by field."""

    capacity: CapacityKind | Literal[""] = ""
    gap: Literal["", "lines-dropped", "overwritten"] = ""
    numbers: dict[str, Number] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _says_something(self) -> Recorded:
        if not (self.capacity or self.gap or self.numbers):
            raise ValueError("write `capacity`, `gap` or `numbers`, or leave `recorded_as` out")
        return self
