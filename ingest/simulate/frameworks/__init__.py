"""How each training framework prints: one module each, all with the same functions.

`start_lines` of a node before the first step, `step` for the lines of a finished step, `checkpoint` and `evaluation`
for the lines before and after a pause, `noise` for one harmless line, `finish` for a run that is done.
"""

from __future__ import annotations

from random import Random
from typing import Final, Protocol

from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.frameworks.hf import Hf
from epicenter.ingest.simulate.frameworks.in_house import InHouse
from epicenter.ingest.simulate.frameworks.maxtext import MaxText
from epicenter.ingest.simulate.frameworks.megatron import Megatron
from epicenter.ingest.simulate.frameworks.ray_train import RayTrain
from epicenter.ingest.simulate.model import Job, Text, Timed


class Printer(Protocol):
    """What a framework prints in a healthy run. Steps count from zero."""

    def start_lines(self, job: Job, place: int, at_ns: int) -> list[Timed]:
        """Of one node, before the first step."""
        ...

    def step(self, cluster: Cluster, job: Job, step: int, took_s: float, rng: Random) -> None:
        """A step is done now."""
        ...

    def saving(self, cluster: Cluster, job: Job, step: int) -> None:
        """A checkpoint begins."""
        ...

    def saved(self, cluster: Cluster, job: Job, step: int) -> None:
        """A checkpoint is done."""
        ...

    def evaluated(self, cluster: Cluster, job: Job, step: int, rng: Random) -> None:
        """An evaluation is done."""
        ...

    def noise(self, job: Job, place: int, rng: Random) -> Text:
        """One harmless line."""
        ...

    def finish(self, cluster: Cluster, job: Job) -> None:
        """The run is done."""
        ...


_PRINTERS: Final[dict[str, Printer]] = {
    "megatron": Megatron(),
    "maxtext": MaxText(),
    "hf": Hf(),
    "ray": RayTrain(),
}
_IN_HOUSE: Final = InHouse()


def printer_of(job: Job) -> Printer:
    """How the job prints."""
    return _PRINTERS[job.framework] if job.step_format is None else _IN_HOUSE
