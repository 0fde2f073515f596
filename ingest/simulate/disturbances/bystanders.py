"""Errors that stop no job: what heals, what belongs to other programs, what hardware lives with for weeks.

Sources: Linux 6.8 (mlx5, sunrpc, nvme, EDAC, x86 traps), NVIDIA r570, NCCL 2.27 `socket.cc`, Python's logging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from epicenter.ingest.simulate import kernel_gpu, kernel_host, reactions
from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.faults import Case
from epicenter.ingest.simulate.headers import nccl, spread
from epicenter.ingest.simulate.jobs import START_UP_S
from epicenter.ingest.simulate.model import Job, Node, Text
from epicenter.rules.model.times import NS_PER_S

Bystander = Callable[[Cluster, Job, int, Random], Process]
"""An event on the job's node with this number."""

EVERY_S: Final = 900.0
"""How often one happens to a job without a fault."""
BEFORE_FAULT_S: Final = (15.0, 240.0)
BEFORE_END_S: Final = 300.0
"""Nothing shows that a job survived what its log ends with."""


def happening(
    cluster: Cluster, job: Job, case: Case | None, kinds: Sequence[Bystander], rng: Random
) -> Iterator[Process]:
    """Before a fault, one of them on another node of the job; without a fault, one now and then."""
    if job.missing:
        return
    if case is None:
        yield _now_and_then(cluster, job, kinds, rng)
    elif len(job.nodes) > 1:
        place = rng.choice([place for place in range(len(job.nodes)) if place != case.place])
        since_start_s = (case.onset_ns - cluster.scenario.start_ns) / NS_PER_S
        at_s = max(START_UP_S + 15, since_start_s - rng.uniform(*BEFORE_FAULT_S))
        yield _after(at_s, rng.choice(kinds)(cluster, job, place, rng))


def _after(wait_s: float, process: Process) -> Process:
    yield wait_s
    yield from process


def _now_and_then(cluster: Cluster, job: Job, kinds: Sequence[Bystander], rng: Random) -> Process:
    yield START_UP_S + 30
    while True:
        yield rng.expovariate(1 / EVERY_S)
        since_start_s = (cluster.now_ns - cluster.scenario.start_ns) / NS_PER_S
        if job.is_over or job.is_stalled or since_start_s > cluster.scenario.minutes * 60 - BEFORE_END_S:
            return
        yield from rng.choice(kinds)(cluster, job, rng.randrange(len(job.nodes)), rng)


def _kernel(cluster: Cluster, node: Node, *texts: str) -> None:
    cluster.kernel(node, spread(cluster.now_ns, texts))


def _worker(cluster: Cluster, job: Job, place: int, *texts: Text) -> None:
    reactions.emit(cluster, job, job.ranks(place).start, spread(cluster.now_ns, texts))


# ---- what heals ------------------------------------------------------------------------------------------------------


def _link_flaps(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    device = f"mlx5_core 0000:{rng.choice(('5e', '9a'))}:00.0 ens3f0np0"
    _kernel(cluster, job.nodes[place], f"{device}: Link down")
    yield rng.uniform(1, 4)
    _kernel(cluster, job.nodes[place], f"{device}: Link up")


def _file_server_slow(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    server = f"nfs: server 10.0.240.{rng.randrange(8, 20)}"
    _kernel(cluster, job.nodes[place], f"{server} not responding, still trying")
    yield rng.uniform(2, 30)
    _kernel(cluster, job.nodes[place], f"{server} OK")


def _drive_recovers(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    tag = rng.randrange(64)
    timeout = f"nvme nvme2: I/O tag {tag} (70{tag:02x}) opcode 0x2 (I/O Cmd) QID 9 timeout, aborting"
    _kernel(cluster, job.nodes[place], f"{timeout} req_op:READ(0) size:131072")
    yield rng.uniform(0.01, 2)
    _kernel(cluster, job.nodes[place], "nvme nvme2: Abort status: 0x0")


def _upload_is_retried(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    _worker(
        cluster,
        job,
        place,
        "WARNING:checkpoint.upload:upload of shard 7 failed, attempt 1 of 5, next attempt in 10 s",
        "Traceback (most recent call last):",
        '  File "/workspace/upload.py", line 61, in upload',
        "    client.upload_file(path, bucket, key)",
        'botocore.exceptions.ConnectTimeoutError: Connect timeout on endpoint URL: "http://objects.cluster.local/ckpt"',
    )
    yield rng.uniform(10, 14)
    _worker(cluster, job, place, "INFO:checkpoint.upload:upload of shard 7 succeeded at attempt 2")


def _connection_is_retried(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    peer = f"{job.nodes[place - 1].ip}<{rng.randrange(30_000, 60_000)}>"
    who = nccl(job, job.nodes[place], job.ranks(place).start)
    retry = f"{who} NCCL INFO socketPollConnect: connect to {peer} returned Connection refused, retrying"
    for attempt in (1, 2):
        _worker(cluster, job, place, f"{retry} ({attempt}/34) after sleep for {100 * attempt} msec")
        yield 0.1 * attempt


def _read_is_retried(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    shard = rng.randrange(4096)
    _worker(cluster, job, place, f"WARNING:data.reader:shard {shard:05d}: [Errno 5] Input/output error, reading again")
    yield 2.0


HEALED: Final[tuple[Bystander, ...]] = (
    _link_flaps, _file_server_slow, _drive_recovers, _upload_is_retried, _connection_is_retried, _read_is_retried,
)  # fmt: skip


# ---- other people's programs -----------------------------------------------------------------------------------------


def _xid_of_another_program(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    gpu, pid, name = job.first_gpu + rng.randrange(job.gpus), rng.randrange(90_000, 400_000), _program(rng)
    fault = (
        f"31, pid={pid}, name={name}, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_3 faulted @"
        f" 0x7f11_{rng.getrandbits(32):08x}. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    )
    raised = f"13, pid={pid}, name={name}, Graphics Exception: ESR 0x504730=0x2000e 0x504734=0x0 0x504728=0x4c1eb72"
    killed = f"43, pid={pid}, name={name}, Ch 00000010"
    head = kernel_gpu.xid(gpu, 0, "").partition("): ")[0]
    _kernel(cluster, job.nodes[place], *(f"{head}): {text}" for text in (rng.choice((fault, raised)), killed)))
    yield 0.0


def _program(rng: Random) -> str:
    return rng.choice(("jupyter-lab", "a.out", "nvbandwidth", "blender"))


def _exporter_out_of_memory(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    name = rng.choice(("dcgm-exporter", "otelcol", "node_exporter"))
    cgroup = f"/system.slice/{name}.service"
    report = kernel_host.out_of_memory(rng.randrange(2_000, 9_000), name, cluster.now_ns, cgroup, 4_194_304)
    cluster.kernel(job.nodes[place], report)
    yield 0.0


def _tool_crashes(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    crash = f"nvidia-smi[{rng.randrange(90_000, 400_000)}]: segfault at 0 ip 00007f3a1c2d41c4 sp 00007ffe8a51c3d0"
    where = "error 4 in libnvidia-ml.so.570.133.20[7f3a1c200000+1d2000] likely on CPU 37 (core 5, socket 0)"
    _kernel(cluster, job.nodes[place], f"{crash} {where}")
    yield 0.0


FOREIGN: Final[tuple[Bystander, ...]] = (_xid_of_another_program, _exporter_out_of_memory, _tool_crashes)


# ---- what hardware lives with ----------------------------------------------------------------------------------------


def _row_to_remap(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    text = "Row Remapper: New row marked for remapping, reset gpu to activate."
    _kernel(cluster, job.nodes[place], kernel_gpu.xid(rng.randrange(cluster.scenario.gpus_per_node), 63, text))
    yield 0.0


def _memory_corrected(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    for _ in range(rng.randrange(1, 6)):
        page = f"page:0x{rng.getrandbits(28):x} offset:0x{rng.getrandbits(6) * 64:x} grain:32 syndrome:0x0"
        _kernel(
            cluster,
            job.nodes[place],
            "mce: [Hardware Error]: Machine check events logged",
            "EDAC MC1: 1 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0"
            f" {page} -  err_code:0x0101:0x0090 ProcessorSocketId:0x0 MemoryControllerId:0x1)",
        )
        yield rng.uniform(0.2, 3)


def _warm(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    cluster.kernel(job.nodes[place], kernel_host.throttled(cluster.now_ns, rng))
    yield rng.uniform(0.01, 0.5)
    _kernel(cluster, job.nodes[place], "CPU12: Package temperature/speed normal")


def _bus_corrected(cluster: Cluster, job: Job, place: int, rng: Random) -> Process:
    for _ in range(rng.randrange(2, 9)):
        _kernel(
            cluster,
            job.nodes[place],
            "pcieport 0000:5d:01.0: AER: Correctable error message received from 0000:5e:00.0",
            "mlx5_core 0000:5e:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)",
            "mlx5_core 0000:5e:00.0:   device [15b3:1021] error status/mask=00001000/0000e000",
            "mlx5_core 0000:5e:00.0:    [12] Timeout               ",
        )
        yield rng.uniform(0.5, 5)


DECOYS: Final[tuple[Bystander, ...]] = (_row_to_remap, _memory_corrected, _warm, _bus_corrected)
