"""What ordinary lines show about a job: it is alive, which step it completed, what begins, how large it is.

One heartbeat replaces many lines: a batch sends one for each step of a rank, and one for each job, node, source and ten
seconds.

Test heartbeats with `type(heartbeat) is Step`: on classes of msgspec, a failing `isinstance` or `case` takes six times
as long.
"""

from __future__ import annotations

from typing import Final, final

import msgspec

CHECKPOINT: Final = "checkpoint"
"""The phase that a checkpoint begins."""

SERVING: Final = "serving"
"""The phase of a server that answers requests; it logs nothing while it has none."""

EVALUATION: Final = "evaluation"
"""The phase of lines whose step is one of an evaluation, or the training step that is evaluated."""

EXIT: Final = "exit"
"""The phase of a line that a process prints while it exits."""

RUN_EXIT: Final = "run-exit"
"""The phase of a line that one process prints for all of them when the run ends."""

AFTER: Final = "after-"
"""A phase of this name and another one begins when the other one ends."""


class _Sourced(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`source` is that of the line; it is keyword-only, so that subclasses add their own fields after it."""

    source: str = "worker"


class _At(_Sourced, frozen=True, gc=False):
    """When and where; `job` and `node` are empty if the line does not name them."""

    event_time_ns: int
    cluster: str
    job: str
    node: str


@final
class Alive(_At, frozen=True, gc=False):
    """A process was alive. `rank` is given if a banner names it without a world size."""

    rank: int | None = None


@final
class Step(_At, frozen=True, gc=False):
    """A training step is completed; `rank` and `compute_ns`, the rank's time without waits, are None if not stated."""

    step: int
    rank: int | None = None
    compute_ns: int | None = None


@final
class Advanced(_At, frozen=True, gc=False):
    """The job advances; the line does not say how far."""


@final
class MayAdvance(_At, frozen=True, gc=False):
    """Lines of progress follow that state no time: they were written before the next line that does, at `until_ns`."""

    until_ns: int


@final
class PhaseBegan(_At, frozen=True, gc=False):
    """The job begins or ends something that takes longer than a step: checkpoint, evaluation, compile, startup."""

    phase: str


@final
class WorldSize(_At, frozen=True, gc=False):
    """The line comes from one of `world_size` ranks; `rank` is None if it does not say which."""

    world_size: int
    rank: int | None = None


@final
class NodeCount(_At, frozen=True, gc=False):
    """The job starts on this many nodes."""

    nodes: int


@final
class CheckpointSaved(_At, frozen=True, gc=False):
    """The checkpoint of this step is complete; its phase ends with it."""

    step: int


@final
class LastStep(_At, frozen=True, gc=False):
    """The line counts this step as the last of the job: `step 500/500`."""

    step: int


@final
class LineCut(_At, frozen=True, gc=False):
    """A line is cut off; `rank` wrote it, None if unknown."""

    rank: int | None = None


Heartbeat = (
    Alive | Step | Advanced | MayAdvance | PhaseBegan | WorldSize | NodeCount | CheckpointSaved | LastStep | LineCut
)
