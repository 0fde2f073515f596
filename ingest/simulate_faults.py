"""What a failing cluster prints: the kernel's report on the node at fault, and the cascade in its peers' logs.

Sources and the shape of a block are those of `simulate_lines`.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

import msgspec

from ingest.simulate_lines import (
    BUSES,
    MS,
    NCCL_VERSION,
    SITE,
    US,
    Host,
    Timed,
    absl_line,
    bus,
    c10d_line,
    moment,
    nccl_prefix,
    spread,
    torch_line,
)

# ---- kernel: faults --------------------------------------------------------------------------------------------------


def gpu_off_bus(host: Host, gpu: int, at_ns: int, rng: Random) -> list[Timed]:
    """A GPU leaves the PCIe bus at `at_ns`, which is the time of the Xid 79 line; the port's AER report comes before.

    NVIDIA Xid catalog, 79 and 154; what follows is the driver's echo (`NV_ERR_GPU_IS_LOST` is status 0x0f).
    """
    pci, device = bus(gpu), f"{bus(gpu)}.0"
    port = f"0000:{int(BUSES[gpu], 16) - 1:02x}:00.0"
    aer = [
        f"pcieport {port}: AER: Uncorrectable (Fatal) error message received from {device}",
        f"nvidia {device}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)",
        f"nvidia {device}:   device [10de:2330] error status/mask=00004000/00000000",
        f"nvidia {device}:    [14] {'CmpltTO':<22} (First)",
        f"nvidia {device}: AER: can't recover (no error_detected callback)",
        f"pcieport {port}: AER: device recovery failed",
    ]
    process = f"pid={host.host_pid(host.ranks.start + gpu)}, name=python3"
    lost = [
        f"NVRM: Xid (PCI:{pci}): 79, {process}, GPU has fallen off the bus.",
        f"NVRM: GPU {device}: GPU has fallen off the bus.",
        f"NVRM: GPU {device}: GPU serial number is 16527230{host.index:04d}{gpu}.",
        "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.",
        *_lost_noise(gpu, 12, rng),
        f"NVRM: Xid (PCI:{pci}): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        *_lost_noise(gpu, 36, rng),
    ]
    return spread(at_ns - 350 * MS, aer, 120 * US) + spread(at_ns, lost, 23 * MS)


def _lost_noise(gpu: int, count: int, rng: Random) -> list[str]:
    sequence = rng.randrange(20_000, 30_000)
    state = "(status == NV_OK) || (status == NV_ERR_GPU_IN_FULLCHIP_RESET)"
    dump = "nvdEngineDumpCallbackHelper(pGpu, pPrbEnc, pNvDumpState, pEngineCallback) @ nv_debug_dump.c:274"
    return [
        rng.choice(
            (
                f"NVRM: GPU{gpu} _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f"
                f" for fn 10 sequence {sequence + i}!",
                f"NVRM: GPU{gpu} rpcRmApiFree_GSP: GspRmFree failed: hClient=0xc1d0{rng.getrandbits(16):04x};"
                " hObject=0x5c000037; paramsStatus=0x00000000; status=0x0000000f",
                f"NVRM: nvAssertFailedNoLog: Assertion failed: {state} @ rs_client.c:844",
                "NVRM: nvCheckOkFailedNoLog: Check failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F)"
                f" returned from {dump}",
            )
        )
        for i in range(count)
    ]


def host_oom(host: Host, rank: int, at_ns: int) -> list[Timed]:
    """The kernel runs out of memory and kills a DataLoader worker of `rank`; `at_ns` is the time of the kill record.

    Linux `mm/oom_kill.c`; figures of the table are pages, those of the last lines kB.
    """
    pid, parent, pages = host.host_pid(rank) + 20_000, host.host_pid(rank), 193_456_128
    cgroup = f"/kubepods.slice/kubepods-pod{uuid5(NAMESPACE_DNS, host.name).hex}.slice/cri-containerd-7d1f.scope"
    report = [
        "pt_data_worker invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), order=0,"
        " oom_score_adj=0",
        f"CPU: 37 PID: {pid} Comm: pt_data_worker Tainted: P           OE      6.8.0-60-generic #63-Ubuntu",
        "Call Trace:",
        " <TASK>",
        " dump_stack_lvl+0x76/0xa0",
        " dump_header+0x47/0x1f0",
        " oom_kill_process+0x118/0x280",
        " out_of_memory+0x103/0x340",
        " __alloc_pages_slowpath.constprop.0+0x9a3/0xa70",
        " </TASK>",
        "Mem-Info:",
        "active_anon:1042 inactive_anon:501773210 isolated_anon:0",
        "Node 0 Normal free:171292kB boost:0kB min:171552kB low:1228024kB high:2284496kB reserved_highatomic:0KB",
        "Tasks state (memory values in pages):",
        "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj"
        " name",
        _task_row(parent, 91_827_364, 11_998_208, 47_104, 118_489_088, "python3"),
        _task_row(pid, pages + 8_000_000, pages, 0, 1_587_314_688, "pt_data_worker"),
    ]
    kill = [
        f"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=cri-containerd-7d1f.scope,mems_allowed=0-1,"
        f"global_oom,task_memcg={cgroup},task=pt_data_worker,pid={pid},uid=0",
        f"Out of memory: Killed process {pid} (pt_data_worker) total-vm:{(pages + 8_000_000) * 4}kB,"
        f" anon-rss:{pages * 4}kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1550112kB oom_score_adj:0",
    ]
    reaped = f"oom_reaper: reaped process {pid} (pt_data_worker), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"
    return [*spread(at_ns - 2 * MS, report, 100 * US), *spread(at_ns, kill, 9 * US), (at_ns + 640 * MS, reaped)]


def _task_row(pid: int, total: int, anon: int, file: int, tables: int, name: str) -> str:
    memory = f"{total:8d} {anon + file:8d} {anon:8d} {file:8d} {0:9d} {tables:8d} {0:8d}"
    return f"[{pid:7d}] {0:5d} {pid:5d} {memory}         {0:5d} {name}"


# ---- workers: faults -------------------------------------------------------------------------------------------------


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


class Collective(msgspec.Struct, frozen=True):
    """The all-reduce that never ended, the same on every rank."""

    sequence: int
    numel: int
    timeout_ms: int

    def __str__(self) -> str:
        shape = f"NumelIn={self.numel}, NumelOut={self.numel}"
        return f"WorkNCCL(SeqNum={self.sequence}, OpType=ALLREDUCE, {shape}, Timeout(ms)={self.timeout_ms})"


def watchdog_timeout(rank: int, at_ns: int, ran_ms: int, work: Collective) -> list[Timed]:
    """One rank's watchdog gives up after `ran_ms` and, a second later, takes the process down."""
    group, last = _group(rank), work.sequence - 1
    caught = (
        f"[Rank {rank}] Watchdog caught collective operation timeout: {work} ran for {ran_ms} milliseconds before"
        " timing out."
    )
    noticed = (
        (683, caught),
        (
            2241,
            f"{group}  failure detected by watchdog at work sequence id: {work.sequence} PG status: last enqueued work:"
            f" {work.sequence}, last completed work: {last}",
        ),
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
    lines = []
    for i, (line, text) in enumerate(noticed):
        at = at_ns + i * 60 * US
        lines.append((at, c10d_line(rank, at, line, text)))
    return lines + _taken_down(rank, at_ns + 1_100 * MS, caught, "checkTimeout", 686)


def peer_closed(host: Host, rank: int, at_ns: int, peer: str, work: Collective) -> list[Timed]:
    """A rank whose neighbour's process died: NCCL says the socket closed, c10d makes it an error within a second."""
    closed = f"socketProgress: Connection closed by remote peer {peer}<{41_000 + rank}>"
    where = nccl_prefix(host, rank)
    nccl = [
        "",
        f"[{moment(at_ns, '%Y-%m-%d %H:%M:%S')}] {where} misc/socket.cc:64 NCCL WARN {closed}",
        f"{where} NCCL INFO misc/socket.cc:863 -> 6",
        f"{where} NCCL INFO transport/net_ib.cc:1332 -> 6",
        f"{where} NCCL INFO proxy.cc:755 -> 6 [Progress Thread]",
    ]
    error = f"NCCL error: remote process exited or there was a network error, NCCL version {NCCL_VERSION}"
    detail = [
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "Last error:",
        closed,
    ]
    at = at_ns + 400 * MS
    raised = c10d_line(rank, at, 590, f"[Rank {rank}] Collective {work} raised the following async exception: {error}")
    lines = spread(at_ns, nccl) + spread(at, [raised, *detail])
    return lines + _taken_down(rank, at + 100 * MS, error, "checkForNCCLErrorsInternal", 2295, detail)


def _group(rank: int) -> str:
    return f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"


def _taken_down(
    rank: int, at_ns: int, reason: str, raised_in: str, line: int, detail: Iterable[str] = ()
) -> list[Timed]:
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
    return spread(
        at_ns,
        [
            c10d_line(rank, at_ns, 744, f"[Rank {rank}] {_SOME_FAILED}"),
            c10d_line(rank, at_ns + 40 * US, 758, f"[Rank {rank}] {_TAKE_DOWN}"),
            c10d_line(rank, at_ns + 80 * US, 2057, ended),
            *stack,
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            f"  what():  {ended}",
            *stack,
        ],
    )


def data_loader_killed(host: Host, rank: int, at_ns: int) -> list[Timed]:
    """The Python side of an out-of-memory kill: the rank whose DataLoader worker is gone raises."""
    loader = f"{SITE}/torch/utils/data"
    texts = [
        "Traceback (most recent call last):",
        '  File "/opt/megatron/pretrain_gpt.py", line 268, in <module>',
        "    pretrain(",
        '  File "/opt/megatron/megatron/training/training.py", line 816, in pretrain',
        "    iteration, num_floating_point_operations_so_far = train(",
        f'  File "{loader}/dataloader.py", line 1448, in _get_data',
        "    success, data = self._try_get_data()",
        f'  File "{loader}/_utils/signal_handling.py", line 73, in handler',
        "    _error_if_any_worker_fails()",
        f"RuntimeError: DataLoader worker (pid {host.pid(rank) + 1_700}) is killed by signal: Killed. ",
    ]
    return spread(at_ns, (f"[rank{rank}]: {text}" for text in texts))


def torchrun_failed(host: Host, rank: int, at_ns: int, exit_code: int) -> list[Timed]:
    """The node's torchrun agent sees `rank` exit, stops the others and ends with its failure table."""
    api, pid, local = "elastic/multiprocessing/api.py", host.pid(rank), rank - host.ranks.start
    lines = [
        (at_ns, torch_line("W", at_ns, 201, f"{api}:900", f"Sending process {host.pid(other)} closing signal SIGTERM"))
        for other in host.ranks
        if other != rank
    ]
    later = at_ns + 1_300 * MS
    failed = f"failed (exitcode: {exit_code}) local_rank: {local} (pid: {pid}) of binary: /usr/bin/python3"
    trace = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    if exit_code == -6:
        trace = f"Signal 6 (SIGABRT) received by PID {pid}"
    texts = [
        torch_line("E", later, 201, f"{api}:874", failed),
        "Traceback (most recent call last):",
        '  File "/usr/local/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        f'  File "{SITE}/torch/distributed/run.py", line 892, in run',
        "    elastic_launch(",
        f'  File "{SITE}/torch/distributed/launcher/api.py", line 277, in launch_agent',
        "    raise ChildFailedError(",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        "/opt/megatron/pretrain_gpt.py FAILED",
        "-" * 60,
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "-" * 60,
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : {moment(later, '%Y-%m-%d_%H:%M:%S')}",
        f"  host      : {host.name}",
        f"  rank      : {rank} (local_rank: {local})",
        f"  exitcode  : {exit_code} (pid: {pid})",
        "  error_file: <N/A>",
        f"  traceback : {trace}",
        "=" * 60,
    ]
    return lines + spread(later, texts)


def heartbeat_lost(task: int, is_leader: bool, silent_task: int, at_ns: int) -> list[Timed]:
    """One surviving JAX task ends because `silent_task` sent no heartbeat; the leader says so first."""
    status = "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):"
    rest = [
        f"/job:jax_worker/replica:0/task:{silent_task}",
        "The tasks have crashed. Check the task logs for an earlier error, or scheduler events (e.g. preemption,"
        " eviction) to debug further.",
    ]
    service = "tensorflow.CoordinationService"
    ending = [*rest, "", f"RPC: /{service}/PollForError [type.googleapis.com/{service}Error='']"]
    fatal = (
        "Terminating process because the JAX distributed service detected fatal errors. This most likely indicates"
        " that another task died; see the other task logs for more details. Disable Python buffering, i.e. `python -u`,"
        f" to be sure to see all the previous output. absl::Status: {status}"
    )
    polled = "Polled an error from coordination service (this can be an error from this or another task)."
    thread = 1_570 + task
    lines: list[Timed] = []
    if is_leader:
        told = f"Use error polling to propagate the following error to all tasks: {status}"
        lines = spread(at_ns, [absl_line("E", at_ns, thread, "coordination_service.cc:1407", told), *rest])
    at = at_ns + 3 * MS
    texts = [absl_line("F", at + 185 * US, thread, "client.h:77", fatal), *ending]
    lines.append((at, absl_line("E", at, thread, "coordination_service_agent.cc:332", polled)))
    return lines + spread(at + 185 * US, texts)


# ---- scheduler -------------------------------------------------------------------------------------------------------


def task_failed(indices: list[int]) -> str:
    """srun's line on nodes (one task each) that ended by themselves with exit code 1."""
    if len(indices) == 1:
        return f"srun: error: node{indices[0] + 1:04d}: task {indices[0]}: Exited with exit code 1"
    nodes = _ranges([index + 1 for index in indices], 4)
    return f"srun: error: node[{nodes}]: tasks {_ranges(indices, 0)}: Exited with exit code 1"


def slurm_cancel(job: str, first: int, others: list[int], hung: int | None, at_ns: int) -> list[Timed]:
    """Slurm ends the step after node `first` failed: `others` end by themselves, `hung` has to be killed (indices)."""
    texts = [
        task_failed([first]),
        f"srun: Terminating StepId={job}.0",
        f"slurmstepd: error: *** STEP {job}.0 ON node0001 CANCELLED AT {moment(at_ns + 200 * MS)} ***",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    ]
    if others:
        texts.append(task_failed(others))
    if hung is not None:
        texts.append(f"srun: error: node{hung + 1:04d}: task {hung}: Killed")
    return spread(at_ns, [*texts, f"srun: Force Terminated StepId={job}.0"], 100 * MS)


def _ranges(numbers: list[int], width: int) -> str:
    """`[1, 2, 3, 7]` as `1-3,7`, each padded to `width`: Slurm's hostlist and task list."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in spans)
