"""One fault that is going to happen: its kind, its victims and when; what a script needs to play it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.model import Framework, Job, Node, Platform, bus

TORCH: Final[tuple[Framework, ...]] = ("megatron", "hf", "ray")
TORCHRUN: Final[tuple[Framework, ...]] = ("megatron", "hf")
ANY: Final[tuple[Framework, ...]] = ("megatron", "maxtext", "hf", "ray")
Reach = Literal["rank", "node", "job", "switch", "storage"]


class Case(msgspec.Struct):
    """A fault with its dice rolled. `place` is the victim's place among its job's nodes.

    `others` are the other nodes behind the same switch or storage server, in order.
    """

    job: Job
    place: int
    gpu: int
    onset_ns: int
    others: tuple[Node, ...] = ()

    @property
    def node(self) -> Node:
        """The node at fault."""
        return self.job.nodes[self.place]

    @property
    def rank(self) -> int:
        """The rank at fault: of the GPU under torch and Ray, of the node's task under JAX."""
        if self.job.framework == "maxtext":
            return self.place
        return self.job.ranks(self.place)[self.gpu - self.job.first_gpu]

    @property
    def pid(self) -> int:
        """The process at fault, as the kernel numbers it."""
        return self.job.host_pid(self.rank)

    @property
    def bus(self) -> str:
        """The GPU's PCI address."""
        return bus(self.gpu)


class FaultKind(msgspec.Struct, frozen=True):
    """What is known of a kind of fault, and the script that plays it. The script begins at the onset.

    `weight` is its share among all interruptions. `reach` is what is hit: the job of a rank, all jobs of a node, the
    job as a whole, all jobs behind a switch or on a storage server. `names` are the parts of the truth that can be
    known from logs: the node, the GPU, the rank; `names_node` is false where not all logs name it, `names_class` where
    no rule knows its lines. `lasts_s`: how long the log continues after the onset, in addition to the timeout of the
    job's collectives.
    """

    name: str
    failure_class: str
    script: Callable[[Cluster, Case], Process]
    also_ok: tuple[str, ...] = ()
    weight: float = 0.0
    reach: Reach = "rank"
    names: tuple[str, ...] = ("node", "rank")
    frameworks: tuple[Framework, ...] = ANY
    platforms: tuple[Platform, ...] = ("kubernetes", "slurm")
    names_node: bool = True
    names_class: bool = True
    verdict: str = ""
    incident: bool = True
    lasts_s: float = 600.0
    begins: Literal["while it trains", "before its job"] = "while it trains"
    prepare: Callable[[Case], None] | None = None
