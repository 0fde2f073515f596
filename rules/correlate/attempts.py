"""Earlier failed runs of the same job: a different error each time may have the same cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from epicenter.rules.model.incident import Recurrence
from epicenter.rules.model.times import NS_PER_S

LOOK_BACK_NS: Final = 7 * 24 * 3600 * NS_PER_S
MAX_KEPT_PER_JOB: Final = 10
MAX_KEPT_JOBS: Final = 5_000
NEAR: Final = 0.05
"""Steps that differ by at most this share count as the same."""


class Attempt(msgspec.Struct, frozen=True):
    """How one run of a job ended. `nodes` are the suspected ones.

    Snapshots write -1 for an unknown step; `written_step` is the value as written.
    """

    incident_id: str
    ended_ns: int
    failure_class: str
    nodes: tuple[str, ...]
    written_step: int = msgspec.field(name="step")

    @classmethod
    def of(
        cls, incident_id: str, ended_ns: int, failure_class: str, nodes: tuple[str, ...], step: int | None
    ) -> Attempt:
        """A run; `step` is the last one that it completed."""
        return cls(incident_id, ended_ns, failure_class, nodes, -1 if step is None else step)

    @property
    def step(self) -> int | None:
        """The last completed step; None if none was reported."""
        return None if self.written_step < 0 else self.written_step


class Attempts(msgspec.Struct):
    """The newest failed runs of each job. The job without failures for the longest time is forgotten first."""

    by_job: dict[str, list[Attempt]] = {}

    def add(self, job: str, attempt: Attempt) -> None:
        """Record a failed run of the job."""
        earlier = self.by_job.pop(job, [])
        others = [run for run in earlier if run.incident_id != attempt.incident_id]
        self.by_job[job] = [*others, attempt][-MAX_KEPT_PER_JOB:]
        if len(self.by_job) > MAX_KEPT_JOBS:
            del self.by_job[next(iter(self.by_job))]

    def before(self, jobs: Iterable[str], incident_id: str, time_ns: int) -> list[Attempt]:
        """Earlier failed runs of these jobs within `LOOK_BACK_NS`, oldest first."""
        runs = {run.incident_id: run for job in sorted(jobs) for run in self.by_job.get(job, ())}
        recent = [run for run in runs.values() if 0 <= time_ns - run.ended_ns <= LOOK_BACK_NS]
        return sorted((run for run in recent if run.incident_id != incident_id), key=lambda run: run.ended_ns)


def recurrence(earlier: Sequence[Attempt], now: Attempt) -> Recurrence | None:
    """What most of the runs have in common; None if this is the first failure."""
    if not earlier:
        return None
    runs = [*earlier, now]
    times_suspected = Counter(node for run in runs for node in run.nodes)
    steps = [run.step for run in runs if run.step is not None]
    is_near = len(steps) == len(runs) and max(steps) - min(steps) <= NEAR * max(steps)
    return Recurrence(
        attempts=len(runs),
        near_step=sorted(steps)[len(steps) // 2] if is_near else None,
        classes=tuple(dict.fromkeys(run.failure_class for run in runs)),
        nodes=tuple(sorted(node for node, times in times_suspected.items() if 2 * times > len(runs))),
        incidents=tuple(run.incident_id for run in earlier),
    )
