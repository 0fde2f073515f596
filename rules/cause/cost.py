"""What an incident cost: steps to repeat, and idle GPU time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from epicenter.rules.model.incident import Cost
from epicenter.rules.model.times import NS_PER_S

_NS_PER_HOUR: Final = 3600 * NS_PER_S

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class JobLoss:
    """What is known about one job; None is unknown. Steps are numbers of completed steps.

    `until_ns` is when the job resumed, or the newest time of an open incident. `resumed_step` is the first step after
    that: with it, repeated steps are counted; without it, they follow from the checkpoint. A checkpoint newer than the
    last known step counts as of that step.
    """

    last_step: int | None = None
    last_step_ns: int | None = None
    until_ns: int | None = None
    step_time_s: float | None = None
    gpus: int | None = None
    checkpoint_step: int | None = None
    resumed_step: int | None = None

    @property
    def steps_lost(self) -> int | None:
        """Steps that must be repeated."""
        if self.last_step is None:
            return None
        if self.resumed_step is not None:
            return max(0, self.last_step - self.resumed_step + 1)
        return None if self.checkpoint_step is None else max(0, self.last_step - self.checkpoint_step)

    @property
    def gpu_hours_lost(self) -> float | None:
        """GPUs times hours: idle since the last step, plus the steps to repeat, as far as they are known."""
        if self.gpus is None or self.last_step_ns is None or self.until_ns is None:
            return None
        idle_hours = max(0, self.until_ns - self.last_step_ns) / _NS_PER_HOUR
        redo_hours = (self.steps_lost or 0) * (self.step_time_s or 0) / 3600
        return self.gpus * (idle_hours + redo_hours)


def cost_of(jobs: Sequence[JobLoss]) -> Cost:
    """The cost over all jobs. A sum is None if one of its parts is unknown.

    `since_checkpoint_step` is the checkpoint from which the only job resumes; None for several jobs.
    """
    hours = _sum([job.gpu_hours_lost for job in jobs])
    return Cost(
        steps_lost=_sum([job.steps_lost for job in jobs]),
        gpu_hours_lost=None if hours is None else round(hours, 2),
        gpus=_sum([job.gpus for job in jobs]),
        since_checkpoint_step=jobs[0].checkpoint_step if len(jobs) == 1 else None,
    )


def _sum(parts: Sequence[Number | None]) -> Number | None:
    numbers = [part for part in parts if part is not None]
    return sum(numbers[1:], numbers[0]) if numbers and len(numbers) == len(parts) else None
