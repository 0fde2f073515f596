"""Matches and heartbeats of a large cluster, made without a line of log: for `bench.correlate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

import msgspec
import orjson

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.model.heartbeats import Alive, Step, WorldSize
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.scan.scan import BatchScanner

START_NS = 1_772_442_000 * NS_PER_S
GPUS = 8
TIMEOUT_S = 600

_WORK = "WorkNCCL(SeqNum=412, OpType=ALLREDUCE, NumelIn=8388608, NumelOut=8388608, Timeout(ms)=600000)"
_GROUP = "[PG ID 0 PG GUID 0(default_pg) Rank 25]"
_CAUGHT = f"Watchdog caught collective operation timeout: {_WORK} ran for 600012 milliseconds before timing out."
_C10D = "[rank25]:[E302 09:00:00.000000000 ProcessGroupNCCL.cpp"
_ELASTIC = "0302 09:00:02.000000 201 torch/distributed/elastic/multiprocessing/api.py"

LINES = {
    "lost_gpu": (
        "NVRM: Xid (PCI:0000:61:00): 79, pid=8129, name=python3, GPU has fallen off the bus.",
        "NVRM: GPU 0000:61:00.0: GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:61:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    ),
    "timed_out_rank": (
        f"{_C10D}:683] [Rank 25] {_CAUGHT}",
        f"{_C10D}:2241] {_GROUP}  failure detected by watchdog at work sequence id: 412 PG status: last enqueued work:"
        " 412, last completed work: 411",
        f"{_C10D}:744] [Rank 25] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA"
        " kernels, subsequent GPU operations might run on corrupted/incomplete data.",
        f"{_C10D}:2057] {_GROUP} Process group watchdog thread terminated with exception: [Rank 25] {_CAUGHT}",
    ),
    "ended_node": (
        f"W{_ELASTIC}:900] Sending process 311 closing signal SIGTERM",
        f"E{_ELASTIC}:874] failed (exitcode: -6) local_rank: 1 (pid: 312) of binary: /usr/bin/python3",
    ),
    "out_of_memory": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.11"
        " GiB of which 1.21 GiB is free.",
    ),
    "corrected_memory": (
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x3f2 offset:0x0"
        " grain:32 syndrome:0x0)",
    ),
    "remapped_row": (
        "NVRM: Xid (PCI:0000:61:00): 63, Row Remapper: New row (0x000000000048b1c0) marked for remapping, reset gpu"
        " to activate.",
    ),
    "blocked_task": ("INFO: task python3:8129 blocked for more than 120 seconds.",),
    "cancelled": ("slurmstepd: error: *** STEP 77.0 ON node0001 CANCELLED AT 2026-03-02T09:11:00 ***",),
    "finished": ("[after training is done] datetime: 2026-03-02 09:11:00",),
}
"""What each happening prints, in the formats of the driver, c10d, torchrun, Slurm and Megatron."""

KERNEL = ("lost_gpu", "corrected_memory", "remapped_row", "blocked_task")
WARNINGS = ("corrected_memory", "remapped_row", "blocked_task")


@dataclass(frozen=True)
class Job:
    """One job on whole nodes, `GPUS` ranks on each."""

    name: str
    nodes: Sequence[str]

    @property
    def ranks(self) -> range:
        """Every rank of the job."""
        return range(len(self.nodes) * GPUS)

    def node_of(self, rank: int) -> str:
        """Where a rank runs."""
        return self.nodes[rank // GPUS]

    def alive(self, at_ns: int) -> Iterator[Alive]:
        """A sign of life of every node."""
        return (Alive(at_ns, "bench", self.name, node) for node in self.nodes)

    def kernels_alive(self, at_ns: int) -> Iterator[Alive]:
        """A sign of life of every node's kernel."""
        return (Alive(at_ns, "bench", "", node, source="kernel") for node in self.nodes)

    def banners(self, at_ns: int) -> Iterator[WorldSize]:
        """Every rank reports its number and the world size."""
        world = len(self.ranks)
        return (WorldSize(at_ns, "bench", self.name, self.node_of(rank), world, rank) for rank in self.ranks)

    def step(self, step: int, at_ns: int) -> Step:
        """A step is completed; the last rank reports it."""
        return Step(at_ns, "bench", self.name, self.nodes[-1], step, self.ranks[-1])

    def step_of_each_node(self, step: int, at_ns: int) -> Iterator[Step]:
        """A step is completed; the first rank of each node reports it."""
        return (Step(at_ns + rank, "bench", self.name, self.node_of(rank), step, rank) for rank in self.ranks[::GPUS])

    def gpu_loss(self, node: str, at_ns: int) -> Iterator[Match]:
        """A GPU falls off the bus, and every rank on another GPU gives up `TIMEOUT_S` later, within 5 s."""
        yield from happening("lost_gpu", at_ns, node)
        dead = self.nodes.index(node) * GPUS + 3
        for rank in self.ranks:
            if rank != dead:
                yield from happening("timed_out_rank", timed_out_ns(at_ns, rank), self.node_of(rank), self.name, rank)
        for any_node in self.nodes:
            yield from happening("ended_node", at_ns + (TIMEOUT_S + 6) * NS_PER_S, any_node, self.name)


def timed_out_ns(fault_ns: int, rank: int) -> int:
    """When the watchdog of a rank fires: within 5 s, not in the order of ranks."""
    return fault_ns + TIMEOUT_S * NS_PER_S + rank * 7_919_000_003 % (5 * NS_PER_S)


def happening(kind: str, at_ns: int, node: str, job: str = "", rank: int | None = None) -> Iterator[Match]:
    """The matches of what is printed at `at_ns` on a node."""
    for number, match in enumerate(templates()[kind]):
        time_ns = at_ns + match.event.event_time_ns - START_NS
        event = msgspec.structs.replace(match.event, event_time_ns=time_ns, node=node, job=job, rank=rank)
        yield msgspec.structs.replace(match, match_id=stable_id(kind, number, time_ns, node, job, rank), event=event)


@cache
def rule_set() -> RuleSet:
    """The bundled rules."""
    return load()


@cache
def templates() -> dict[str, list[Match]]:
    """The matches of `LINES`; line n of a happening is n ms after its first."""
    return {kind: _scanned(lines, "kernel" if kind in KERNEL else "worker") for kind, lines in LINES.items()}


def _scanned(lines: Sequence[str], source: str) -> list[Match]:
    values = [
        orjson.dumps({"timestamp": START_NS / NS_PER_S + number / 1000, "source": source, "message": line})
        for number, line in enumerate(lines)
    ]
    count = len(values)
    batch = Batch("bench", values, [None] * count, [START_NS] * count, range(count))
    return BatchScanner(rule_set(), "bench").scan(batch).matches


def as_received(matches: list[Match]) -> list[Match]:
    """The matches as a worker receives them from another one: with separate strings."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(matches), type=list[Match])


def jobs(count: int, nodes_each: int) -> list[Job]:
    """`count` jobs, each on separate nodes."""
    return [
        Job(f"job{number}", [f"node{number * nodes_each + index:05d}" for index in range(nodes_each)])
        for number in range(count)
    ]


def failing_jobs(running: Sequence[Job], length_ns: int) -> list[Match]:
    """Within the time, each job loses a GPU or runs out of memory, between warnings of the kernels; in time order."""
    chance = Random(1)
    matches: list[Match] = []
    for job in running:
        at_ns = START_NS + chance.randrange(length_ns)
        node = chance.choice(job.nodes)
        matches += job.gpu_loss(node, at_ns)
        matches += happening("out_of_memory", at_ns + chance.randrange(length_ns), node, job.name, 0)
    for _ in range(len(matches) // 3):
        node = chance.choice(chance.choice(running).nodes)
        matches += happening(chance.choice(WARNINGS), START_NS + chance.randrange(length_ns), node)
    return sorted(matches, key=lambda match: match.event.event_time_ns)
