"""What quiet lines tell of a job: that somebody is alive, which step is done, what begins, how large it is.

One heartbeat stands for many lines: a batch sends one for each step of a rank, and one for each job, node, source and
ten seconds.

Whatever is asked of each heartbeat is asked by `type(heartbeat) is Step`: for classes of msgspec, `isinstance` and
`case` take six times as long to say no.
"""

from __future__ import annotations

from typing import Final, final

import msgspec

CHECKPOINT: Final = "checkpoint"
"""The phase that a checkpoint begins and ends."""


class _Heard(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`source` is that of the line; it is given by name, so that what a line says follows who said it."""

    source: str = "worker"


class _At(_Heard, frozen=True, gc=False):
    """When, and of whom; `job` and `node` are empty where the line does not tell them."""

    event_time_ns: int
    cluster: str
    job: str
    node: str


@final
class Alive(_At, frozen=True, gc=False):
    """Somebody was alive. `rank` is given where a banner names one and not how many there are."""

    rank: int | None = None


@final
class Step(_At, frozen=True, gc=False):
    """A training step is completed; `rank` is None where the line does not name it."""

    step: int
    rank: int | None = None


@final
class Advanced(_At, frozen=True, gc=False):
    """The job gets further, and the line does not say how far."""


@final
class PhaseBegan(_At, frozen=True, gc=False):
    """The job begins or ends something that takes longer than a step: checkpoint, evaluation, compile, startup."""

    phase: str


@final
class WorldSize(_At, frozen=True, gc=False):
    """The line comes from one of so many ranks; `rank` says from which, where it does."""

    world_size: int
    rank: int | None = None


@final
class NodeCount(_At, frozen=True, gc=False):
    """The job is started on so many nodes."""

    nodes: int


@final
class CheckpointSaved(_At, frozen=True, gc=False):
    """The checkpoint of this step is complete; a `CHECKPOINT` phase ends with it."""

    step: int


@final
class LineCut(_At, frozen=True, gc=False):
    """A line ends in the middle; `rank` wrote it, where that is known."""

    rank: int | None = None


Heartbeat = Alive | Step | Advanced | PhaseBegan | WorldSize | NodeCount | CheckpointSaved | LineCut
