"""Twenty minutes of a small cluster, cut into the messages of our own topics: everything that a snapshot can hold."""

from __future__ import annotations

from collections.abc import Iterator

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.model.flat_heartbeats import flattened
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.kafka.messages import Message, Part, ProgressTick, ScanMessage
from epicenter.stream.scan.scan import BatchScanner, ScanResult
from tests.support.logs import at, fluent_bit, kernel, the_rules, vector

Line = tuple[float, int, bytes]
"""Second, raw partition, and the line."""

PIECE_S = 20
END_S = 1300
SNAPSHOT_S = 660
TRACEBACK = (
    "[rank0]: Traceback (most recent call last):",
    '[rank0]:   File "/app/train.py", line 12, in step',
    "[rank0]: ValueError: token 70000 is out of range",
)


def lines() -> list[Line]:
    """All of it, in order."""
    found = [*_banners(), *_steps_of_a(), *_steps_of_b(), *_jobs_without_ranks(), *_kernels(), *_shipper()]
    return sorted(found, key=lambda line: line[0])


def _banners() -> Iterator[Line]:
    init = "ncclCommInitRank comm 0x55d0 rank {} nranks {} cudaDev 3 nvmlDev 3 busId {} commId 0xb8 - Init START"
    for rank, node in enumerate(("n1", "n2")):
        yield 1, rank, vector(node, 1, f"{node}:991:1203 [3] NCCL INFO {init.format(rank, 2, '9a000')}", "A")
        yield 2, rank, vector(node, 2, f"{node}:991:1203 [3] NCCL INFO Bootstrap: Using eth0:10.1.0.{rank}<0>", "A")
    yield 1, 0, vector("n3", 1, "+ torchrun --nnodes=2 --nproc-per-node=8 --rdzv-endpoint=n3:29500 train.py", "B")
    yield 2, 0, vector("n3", 2, "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/16", "B")
    yield 3, 0, vector("n3", 3, "Compiling the model with torch.compile", "B")
    yield 700, 0, vector("n8", 700, "+ torchrun --nnodes=3 --nproc-per-node=8 --rdzv-endpoint=n8:29500 train.py", "E")


def _steps_of_a() -> Iterator[Line]:
    """Two ranks abreast; both stop at 600 s, as n2 loses a GPU, and time out ten minutes later."""
    for step in range(1, 61):
        for rank, node in enumerate(("n1", "n2")):
            second = 10 * step + rank * 0.4
            text = f" {rank}: completed step: {step}, seconds: 5.000, TFLOP/s/device: 380.1"
            yield second, rank, vector(node, second, text, "A")
    for second in (300, 500):
        yield (
            second,
            0,
            vector("n1", second, f"  successfully saved checkpoint from iteration {second // 10} to /c", "A"),
        )
        yield second - 2, 0, vector("n1", second - 2, f"saving checkpoint at iteration {second // 10} to /c", "A")
    for rank, node in enumerate(("n1", "n2")):
        for second in range(610, 1220, 10):
            yield second, rank, vector(node, second, f"prefetching shard {second}", "A")
    text = (
        "[rank0]:[E ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=4120, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
    )
    yield 1211, 0, vector("n1", 1211, text, "A")


def _steps_of_b() -> Iterator[Line]:
    """Sixteen ranks that log on rank 0 alone, hung since 622 s; the node n4 says nothing from 500 s on."""
    for step in range(1, 104):
        second = 4 + 6 * step
        yield second, 0, vector("n3", second, f"completed step: {step}, seconds: 6.000", "B")
        if second < 500:
            yield second, 1, vector("n4", second, f"prefetching shard {step}", "B")
    for second in range(630, END_S, 10):
        yield second, 0, vector("n3", second, "waiting for the next batch", "B")


def _jobs_without_ranks() -> Iterator[Line]:
    """C goes on after a lone error; D fails, comes back and gets on; F is cut off within a line; G finishes."""
    for step in range(1, 90):
        yield 11 * step, 1, fluent_bit("n5", 11 * step, f"completed step: {step}, seconds: 11.000", "C")
    for node, job in (("n5", "C"), ("n10", "H")):
        for number, text in enumerate(TRACEBACK):
            yield 645 + number / 10, 1, fluent_bit(node, 645 + number / 10, text, job)
    for second in range(20, 630, 20):
        yield second, 1, fluent_bit("n10", second, "INFO:worker:{'event': 'before_forward', 'batch': 210}", "H")
    yield 321, 1, fluent_bit("n10", 321, "***** Running Evaluation *****", "H")
    yield 12, 1, fluent_bit("n10", 12, " loading checkpoint from /ckpt/run7 at iteration 500", "H")
    for number, step in enumerate((*range(1, 31), *range(20, 60))):
        second = 8 * number + (60 if number >= 30 else 0)
        yield second, 1, fluent_bit("n6", second, f"completed step: {step}, seconds: 8.000", "D")
    yield 245, 1, fluent_bit("n6", 245, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "D")
    for step in range(1, 40):
        yield 9 * step, 0, vector("n7", 9 * step, f"iter {step}: loss 2.3145, time 9000.11ms, mfu 38.10%", "F")
    yield 360, 0, vector("n7", 360, "iter 40: loss 2.31", "F")
    for step in range(1, 50):
        yield 7 * step, 0, vector("n9", 7 * step, f"completed step: {step}, seconds: 7.000", "G")
    yield 350, 0, vector("n9", 350, "[exiting program at iteration 50] datetime: 2026-03-02 12:00:00", "G")


def _kernels() -> Iterator[Line]:
    xid = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
    yield 601, 1, kernel("n2", 601, xid)
    yield 639, 1, kernel("n6", 639, "NVRM: Xid (PCI:0000:1b:00): 94, pid=7, name=python3, Contained: SM (0x1).")
    edac = "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x{} offset:0x80)"
    for number in range(12):
        second = 500 + 30 * number
        yield second, 1, kernel("n5", second, edac.format(number))
    for second in range(0, END_S, 10):
        for number, node in enumerate(("n1", "n2", "n3")):
            yield second + 5, number % 2, kernel(node, second + 5, f"audit: backlog {second}")
    yield 620, 0, kernel("n3", 620, "mlx5_core 0000:1a:00.0 mlx5_0: Port 1 link down")


def _shipper() -> Iterator[Line]:
    yield 400, 0, b'{"kubernetes":{"pod_name":"train-A","pod_node_name":"n1"},"timestamp":"2026-03-02T09:06:40'
    yield 401, 0, b"\xff\xfe not text"


def batches() -> Iterator[tuple[float, int, ScanResult, int]]:
    """Piece by piece and raw partition by raw partition: its end in seconds, the partition, what it held, its end."""
    scanner, taken = BatchScanner(the_rules(), "default"), [0, 0]
    everything = lines()
    for end_s in range(PIECE_S, END_S + PIECE_S, PIECE_S):
        for number in (0, 1):
            piece = [line for line in everything if end_s - PIECE_S <= line[0] < end_s and line[1] == number]
            if piece:
                batch = _batch(piece, number, taken[number])
                taken[number] += len(piece)
                yield end_s, number, scanner.scan(batch), taken[number]


def _batch(piece: list[Line], number: int, first: int) -> Batch:
    return Batch(
        source=f"logs.raw/{number}",
        values=[value for _, _, value in piece],
        keys=[None] * len(piece),
        received_ns=[at(second) + NS_PER_S // 2 for second, _, _ in piece],
        offsets=range(first, first + len(piece)),
    )


def matches_topic() -> Iterator[tuple[float, Message]]:
    """The messages of one partition of matches, each with its second: a tick confirms a piece after the next came."""
    read: dict[str, int] = {}
    for end_s, number, scanned, end in batches():
        matches = (*scanned.matches, *scanned.observed)
        source = f"logs.raw/{number}"
        part = Part(
            source,
            end,
            scanned.newest_ns,
            matches,
            tuple(map(flattened, scanned.heartbeats)),
            tuple(scanned.rank_placements),
        )
        yield end_s, ScanMessage((part,))
        yield end_s, ProgressTick(dict(read), (), 0, True)
        read[source] = end
    yield END_S + PIECE_S, ProgressTick(dict(read), (), 0, True)
    yield END_S + 8000, ProgressTick(dict(read), (), 7200 * NS_PER_S, True)
