"""How far each job has come, and whether it has stopped: alive is not progressing."""

from __future__ import annotations

from statistics import median
from typing import Final

import msgspec

from rules.model import NS_PER_S

KEPT_PACES: Final = 20
PACES_TO_TRUST: Final = 3
STALL_PACES: Final = 10
ROUND_NS: Final = 60 * NS_PER_S
"""The same step told again within the same minute says nothing new, so one report of it is enough."""


class JobProgress(msgspec.Struct):
    """The steps of one job, or of a node whose lines name no job.

    `paces_ns` are its newest times a step; the median of them is its pace.

    A job counts as stopped when no new step came for ten times its pace, and at least `floor_ns`, so that checkpoints,
    evaluation and compilation are waited out. A step told again soon after is a slower rank's; one told again later
    comes from a job that went back to a checkpoint, and goes on from there.
    """

    floor_ns: int
    cluster: str = ""
    job: str = ""
    node: str = ""
    last_step: int = -1
    last_step_ns: int = 0
    paces_ns: list[int] = []
    has_ended: bool = False
    is_stalled: bool = False

    def step(self, step: int, time_ns: int) -> bool:
        """Take a completed step; true when the job got further by it."""
        if step <= self.last_step and self._is_soon(time_ns):
            return False
        if 0 <= self.last_step < step and time_ns > self.last_step_ns:
            self.paces_ns = [*self.paces_ns[1 - KEPT_PACES :], (time_ns - self.last_step_ns) // (step - self.last_step)]
        self.last_step, self.last_step_ns = step, time_ns
        self.has_ended = self.is_stalled = False
        return True

    @property
    def pace_ns(self) -> int | None:
        """Median time a step, once enough steps were seen."""
        return int(median(self.paces_ns)) if len(self.paces_ns) >= PACES_TO_TRUST else None

    @property
    def stall_due_ns(self) -> int | None:
        """When the job will count as stopped if nothing more is heard; None when it can't be said."""
        if self.pace_ns is None or self.has_ended or self.is_stalled:
            return None
        return self.last_step_ns + max(STALL_PACES * self.pace_ns, self.floor_ns)

    def sentence(self) -> str:
        """What is known of the stop, in words."""
        pace_s = (self.pace_ns or 0) / NS_PER_S
        return f"no step after step {self.last_step}; a step had taken {pace_s:.1f} s"

    def _is_soon(self, time_ns: int) -> bool:
        rounds = 1 + 2 * (self.pace_ns or 0) // ROUND_NS
        return time_ns // ROUND_NS <= self.last_step_ns // ROUND_NS + rounds
