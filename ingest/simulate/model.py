"""What a simulated cluster is made of: the scenario, its nodes and jobs, the lines that come out, and the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from epicenter.rules.model.times import NS_PER_S

US: Final = 1_000
MS: Final = 1_000_000
Framework = Literal["megatron", "maxtext", "hf", "ray"]
Platform = Literal["kubernetes", "slurm"]
KernelShipper = Literal["rsyslog", "vector", "journal", "kmsg"]
Disturbance = Literal[
    "at-once", "decoy", "foreign", "half", "healed", "in-house", "mute", "no-kernel-log", "restart", "skew", "topology"
]  # fmt: skip
Text = str | Callable[[int], str]
"""A line, or what makes it from the writer's own clock (nanoseconds)."""
Timed = tuple[int, Text]
"""True time of writing in nanoseconds, and the line."""

BUSES: Final = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
"""PCI buses of the eight GPUs of an HGX H100 board, by CUDA index."""


class Scenario(msgspec.Struct, frozen=True):
    """One run of a cluster. No `faults` is a healthy one.

    `is_tidy`: all jobs in pods, all kernels through rsyslog, nothing late, lost, cut or doubled, so that every line
    states its time and occurs once. `after_fault_s`: how long the log continues after a fault and its timeouts, in
    place of the default of the kind of fault. Noise is counted in events a node and minute, each of one to six lines.
    `first_node`: the index of the first node. `disturbances`: see the package of that name.
    """

    nodes: int = 32
    jobs: int = 1
    minutes: float = 30.0
    seed: int = 1
    faults: tuple[str, ...] = ()
    gpus_per_node: int = 8
    start_ns: int = 1_772_442_000 * NS_PER_S  # 2026-03-02T09:00:00Z
    frameworks: tuple[Framework, ...] = ()
    collective_timeout_s: float | None = None
    step_time_s: float | None = None
    fault_at_s: float | None = None
    after_fault_s: float | None = None
    is_tidy: bool = False
    kernel_noise_per_minute: float = 1.0
    worker_noise_per_minute: float = 1.0
    first_node: int = 0
    disturbances: tuple[Disturbance, ...] = ()


class SimulatedLine(msgspec.Struct, frozen=True):
    """One physical line, without its line end, its file, and when it was written there."""

    written_ns: int
    path: str
    text: str


class Node(msgspec.Struct):
    """One machine. `skew_ns` is how far its clock is ahead of the true time; a silent shipper sends nothing more."""

    index: int
    booted_ns: int
    skew_ns: int
    kernel_shipper: KernelShipper
    is_dead: bool = False
    has_shipper: bool = True
    kernel_sequence: int = 1200

    @property
    def name(self) -> str:
        """Node name, counted from one: `node0001`."""
        return f"node{self.index + 1:04d}"

    @property
    def ip(self) -> str:
        """Address on the cluster's network."""
        return f"10.0.{self.index // 250}.{self.index % 250 + 1}"

    def clock(self, true_ns: int) -> int:
        """What its clock shows."""
        return true_ns + self.skew_ns


class Job(msgspec.Struct):
    """One job on its nodes, with `gpus` processes or devices a node from `first_gpu` on.

    Under JAX a node is one task, under Ray and torch a GPU is one rank. `is_over`: none of its processes run any more;
    `is_stalled`: they run without progress. `has_plain_log`: a Slurm job whose tasks all write into one plain file,
    instead of one file a task that a shipper reads. `is_cut`: its lines end in the middle. `slowness` stretches
    every step. `step_format`: the number of an in-house format, in place of its framework's.
    """

    job_id: str
    framework: Framework
    platform: Platform
    nodes: tuple[Node, ...]
    gpus: int
    first_gpu: int
    step_time_s: float
    timeout_s: float
    first_step: int
    checkpoint_every: int
    is_announced: bool
    pod_shipper: Literal["vector", "fluent-bit"]
    has_plain_log: bool = False
    is_buffered: bool = False
    is_cut: bool = False
    is_over: bool = False
    is_stalled: bool = False
    stop_at_step: int | None = None
    slowness: float = 1.0
    steps_done: int = 0
    missing: frozenset[int] = frozenset()
    step_format: int | None = None

    @property
    def world_size(self) -> int:
        """Number of ranks: processes under torch and Ray, tasks under JAX."""
        return len(self.nodes) * self.ranks_per_node

    @property
    def ranks_per_node(self) -> int:
        """Ranks on each node."""
        return 1 if self.framework == "maxtext" else self.gpus

    def ranks(self, place: int) -> range:
        """Ranks on the job's node number `place`."""
        return range(place * self.ranks_per_node, (place + 1) * self.ranks_per_node)

    def place(self, node: Node) -> int:
        """Which of the job's nodes this is, from zero."""
        return next(i for i, other in enumerate(self.nodes) if other.index == node.index)

    def gpu(self, rank: int) -> int:
        """Index of the rank's GPU on its node; the first one of the task under JAX."""
        return self.first_gpu + rank % self.ranks_per_node

    def pid(self, rank: int) -> int:
        """Process id of the rank inside its pod."""
        return 311 + 100 * (int(self.job_id) % 50) + rank % self.ranks_per_node

    def host_pid(self, rank: int) -> int:
        """The same process, as the node's kernel numbers it."""
        return 812_000 + 40 * (rank // self.ranks_per_node) + self.pid(rank)


class TrueFault(msgspec.Struct, frozen=True):
    """What really happened. `incident` false: something looks suspicious, and no incident may come of it.

    `node` is empty where no node is at fault, `gpu` a PCI address or empty, `onset` the true time of the failure.
    `also_ok` are classes that name the same event from another line. `names_node`: its logs always name the node.
    `names_class`: its logs name the class; where they don't, any class of an effect is right.
    """

    fault: str
    failure_class: str = msgspec.field(name="class")
    also_ok: tuple[str, ...]
    node: str
    gpu: str
    rank: int | None
    onset: str
    jobs: tuple[str, ...]
    nodes: tuple[str, ...]
    verdict: str
    incident: bool
    names_node: bool = True
    names_class: bool = True

    def is_of(self, failure_class: str) -> bool:
        """Whether an answer with this class is right; any is where the logs don't name it."""
        return not self.names_class or failure_class in (self.failure_class, *self.also_ok)

    def is_at(self, node: str) -> bool:
        """Whether an answer with this node is right; any is where no node is at fault."""
        return self.node in ("", node) or not (self.names_node or node)


class TrueJob(msgspec.Struct, frozen=True):
    """One job as it was placed."""

    job: str
    framework: str
    nodes: tuple[str, ...]
    world_size: int


class Truth(msgspec.Struct, frozen=True):
    """What really happened in a run."""

    seed: int
    nodes: int
    start: str
    end: str
    jobs: tuple[TrueJob, ...]
    faults: tuple[TrueFault, ...]
    gpus_per_node: int = 8
    disturbances: tuple[Disturbance, ...] = ()


def bus(gpu: int) -> str:
    """PCI address of a GPU as Xid lines write it: domain, bus and device, no function."""
    return f"0000:{BUSES[gpu]}:00"


def ns(seconds: float) -> int:
    """Seconds as whole microseconds, in nanoseconds."""
    return round(seconds * 1e6) * US
