"""What PyTorch, NCCL and torchrun print when a job fails.

Sources: torch 2.8 ProcessGroupNCCL.cpp and elastic agent, NCCL 2.27; the worker catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from epicenter.ingest.simulate.headers import (
    NCCL_VERSION,
    SITE,
    by_rank,
    c10d,
    nccl,
    nccl_warn,
    spread,
    torch_python,
    utc_time,
)
from epicenter.ingest.simulate.model import MS, US, Job, Node, Text, Timed

SCRIPTS: Final = {"megatron": "/opt/megatron/pretrain_gpt.py", "hf": "/workspace/train.py", "ray": "train_ray.py"}

_NO_TRACE: Final = (
    "Stack trace of the failed collective not found, potentially because FlightRecorder is disabled."
    " You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value."
)
_ADVICE: Final = (
    "This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, the order"
    " of collectives is not same for all ranks or the scheduled collective, for some reason, didn't run."
    " Additionally, this can be caused by GIL deadlock or other reasons such as network errors or bugs in the"
    " communications library (e.g. NCCL), etc. "
)
_SOME_FAILED: Final = (
    "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels,"
    " subsequent GPU operations might run on corrupted/incomplete data."
)
_TAKE_DOWN: Final = "To avoid data inconsistency, we are taking the entire process down."
_ASYNC_TAIL: Final = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be"
    " incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable"
    " device-side assertions.\n"
)


class Collective(msgspec.Struct, frozen=True):
    """The collective that never ended, as one rank knows it."""

    sequence: int
    numel: int
    timeout_ms: int
    operation: str = "ALLREDUCE"

    def __str__(self) -> str:
        shape = f"NumelIn={self.numel}, NumelOut={self.numel}"
        return f"WorkNCCL(SeqNum={self.sequence}, OpType={self.operation}, {shape}, Timeout(ms)={self.timeout_ms})"


def watchdog_timeout(rank: int, at_ns: int, ran_ms: int, work: Collective) -> list[Timed]:
    """One rank's watchdog gives up after `ran_ms` and, a second later, takes the process down."""
    group, last = _group(rank), work.sequence - 1
    caught = (
        f"[Rank {rank}] Watchdog caught collective operation timeout: {work} ran for {ran_ms} milliseconds before"
        " timing out."
    )
    status = f"last enqueued work: {work.sequence}, last completed work: {last}"
    noticed = (
        (683, caught),
        (2241, f"{group}  failure detected by watchdog at work sequence id: {work.sequence} PG status: {status}"),
        (730, _NO_TRACE),
        (2573, f"{group} First PG on this rank to signal dumping."),
        (
            1870,
            f"{group} Received a dump signal due to a collective timeout from this local rank and we will try our best"
            f" to dump the debug info. Last enqueued NCCL work: {work.sequence}, last completed NCCL work: {last}."
            f"{_ADVICE}",
        ),
        (1587, f"{group} ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1"),
    )
    lines = spread(at_ns, (c10d(rank, line, text) for line, text in noticed), 60 * US)
    return lines + taken_down(rank, at_ns + 1_100 * MS, caught, "checkTimeout", 686)


def peer_closed(job: Job, node: Node, rank: int, at_ns: int, peer: Node, work: Collective) -> list[Timed]:
    """A rank whose neighbour's process died: NCCL reports the closed socket, c10d makes it an error within a second."""
    closed = f"socketProgress: Connection closed by remote peer {peer.name}<{41_000 + rank}>"
    where = nccl(job, node, rank)
    texts: list[Text] = [
        *nccl_warn(job, node, rank, "misc/socket.cc:64", closed),
        f"{where} NCCL INFO misc/socket.cc:863 -> 6",
        f"{where} NCCL INFO transport/net_ib.cc:1332 -> 6",
        f"{where} NCCL INFO proxy.cc:755 -> 6 [Progress Thread]",
    ]
    return spread(at_ns, texts) + remote_error(rank, at_ns + 400 * MS, closed, work)


def retry_exceeded(job: Job, node: Node, rank: int, at_ns: int, peer: Node, work: Collective) -> list[Timed]:
    """A rank whose InfiniBand or RoCE peer does not answer any more: status 12 after the retries."""
    gid = f"::ffff:10.1.{node.index // 250}.{node.index % 250 + 1}"
    remote = f"::ffff:10.1.{peer.index // 250}.{peer.index % 250 + 1}"
    text = (
        f"NET/IB: Got completion from peer {peer.ip}<{39_000 + rank}> with status=12 opcode=0 len=0 vendor err 129"
        f" (Recv) localGid {gid} remoteGids{remote} hca mlx5_{job.gpu(rank)}"
    )
    texts: list[Text] = [
        *nccl_warn(job, node, rank, "transport/net_ib.cc:2449", text),
        f"{nccl(job, node, rank)} NCCL INFO transport/net.cc:1298 -> 6",
    ]
    return spread(at_ns, texts) + remote_error(rank, at_ns + 300 * MS, text, work)


def remote_error(rank: int, at_ns: int, last_error: str, work: Collective) -> list[Timed]:
    """c10d passes on what NCCL noticed, and takes the process down."""
    error = f"NCCL error: remote process exited or there was a network error, NCCL version {NCCL_VERSION}"
    detail = [
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "Last error:",
        last_error,
    ]
    raised = c10d(rank, 590, f"[Rank {rank}] Collective {work} raised the following async exception: {error}")
    lines = spread(at_ns, [raised, *detail])
    return lines + taken_down(rank, at_ns + 100 * MS, error, "checkForNCCLErrorsInternal", 2295, detail)


def cuda_in_watchdog(rank: int, at_ns: int, error: str) -> list[Timed]:
    """The rank's watchdog meets a CUDA error that poisoned the context, and aborts the process."""
    whole = f"CUDA error: {error}\n{_ASYNC_TAIL}"
    first, *rest = whole.split("\n")
    return taken_down(rank, at_ns, first, "c10_cuda_check_implementation", 43, rest)


def cuda_error(rank: int, error: str, frames: Iterable[str]) -> list[Text]:
    """The Python side of a CUDA error."""
    tail = f"torch.AcceleratorError: CUDA error: {error}\n{_ASYNC_TAIL}".split("\n")
    return by_rank(rank, ["Traceback (most recent call last):", *frames, *tail])


def taken_down(
    rank: int, at_ns: int, reason: str, raised_in: str, line: int, detail: Sequence[str] = ()
) -> list[Timed]:
    """The watchdog thread ends with an exception, and the process with it (SIGABRT)."""
    ended = f"{_group(rank)} Process group watchdog thread terminated with exception: {reason}"
    library = f"{SITE}/torch/lib/libtorch_cuda.so"
    stack = [
        *detail,
        f"Exception raised from {raised_in} at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:{line}"
        " (most recent call first):",
        f"frame #0: c10d::ProcessGroupNCCL::Watchdog::runLoop() + 0x978 (0x7f3b6e7213e8 in {library})",
        f"frame #1: c10d::ProcessGroupNCCL::Watchdog::run() + 0xcb (0x7f3b6e72304b in {library})",
        "",
    ]
    texts: list[Text] = [
        c10d(rank, 744, f"[Rank {rank}] {_SOME_FAILED}"),
        c10d(rank, 758, f"[Rank {rank}] {_TAKE_DOWN}"),
        c10d(rank, 2057, ended),
        *stack,
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        f"  what():  {ended}",
        *stack,
    ]
    return spread(at_ns, texts)


def _group(rank: int) -> str:
    return f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"


SIGNALS: Final = {-6: "SIGABRT", -7: "SIGBUS", -9: "SIGKILL", -11: "SIGSEGV", -15: "SIGTERM"}


def torchrun_failed(job: Job, node: Node, rank: int, at_ns: int, exit_code: int) -> list[Timed]:
    """The node's torchrun agent sees `rank` exit, stops the others and ends with its failure table."""
    api, pid, local = "elastic/multiprocessing/api.py", job.pid(rank), rank % job.ranks_per_node
    ranks = job.ranks(rank // job.ranks_per_node)
    closing = [
        torch_python("W", 201, f"{api}:900", f"Sending process {job.pid(other)} closing signal SIGTERM")
        for other in ranks
        if other != rank
    ]
    trace = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    if exit_code in SIGNALS:
        trace = f"Signal {-exit_code} ({SIGNALS[exit_code]}) received by PID {pid}"
    failed = f"failed (exitcode: {exit_code}) local_rank: {local} (pid: {pid}) of binary: /usr/bin/python3"
    later = at_ns + 1_300 * MS
    texts: list[Text] = [
        torch_python("E", 201, f"{api}:874", failed),
        "Traceback (most recent call last):",
        '  File "/usr/local/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        f'  File "{SITE}/torch/distributed/run.py", line 892, in run',
        "    elastic_launch(",
        f'  File "{SITE}/torch/distributed/launcher/api.py", line 277, in launch_agent',
        "    raise ChildFailedError(",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        f"{SCRIPTS[job.framework]} FAILED",
        "-" * 60,
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "-" * 60,
        "Root Cause (first observed failure):",
        "[0]:",
        lambda clock_ns: f"  time      : {utc_time(clock_ns, '%Y-%m-%d_%H:%M:%S')}",
        f"  host      : {node.name}",
        f"  rank      : {rank} (local_rank: {local})",
        f"  exitcode  : {exit_code} (pid: {pid})",
        "  error_file: <N/A>",
        f"  traceback : {trace}",
        "=" * 60,
    ]
    return spread(at_ns, closing) + spread(later, texts)


def agent_terminated(job: Job, place: int, at_ns: int, signal: int = 15) -> list[Timed]:
    """The node's torchrun agent gets SIGTERM from outside and stops its workers."""
    name = {2: "SIGINT", 15: "SIGTERM"}[signal]
    api = "elastic/agent/server/api.py"
    closing = [
        torch_python(
            "W", 201, "elastic/multiprocessing/api.py:900", f"Sending process {job.pid(rank)} closing signal {name}"
        )
        for rank in job.ranks(place)
    ]
    received = f"Received {signal} death signal, shutting down workers"
    return spread(at_ns, [torch_python("W", 201, f"{api}:719", received), *closing])
