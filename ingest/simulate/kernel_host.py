"""What the kernel prints when memory, disks, the network, the processor or the node itself fail.

Sources: Linux 6.8 to 6.12 (`mm/oom_kill.c`, `kernel/hung_task.c`, nvme, ext4, sunrpc, mlx5); the kernel catalogue.
"""

from __future__ import annotations

from random import Random
from uuid import NAMESPACE_DNS, uuid5

from epicenter.ingest.simulate.envelopes import pod_name
from epicenter.ingest.simulate.headers import spread
from epicenter.ingest.simulate.model import MS, US, Job, Timed

_STACK = (
    "Call Trace:",
    " <TASK>",
    " dump_stack_lvl+0x76/0xa0",
    " dump_header+0x47/0x1f0",
    " oom_kill_process+0x118/0x280",
    " out_of_memory+0x103/0x340",
    " </TASK>",
)
_HEAD = (
    "Tasks state (memory values in pages):",
    "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name",
)


def out_of_memory(pid: int, name: str, at_ns: int, cgroup: str, limit_kib: int | None) -> list[Timed]:
    """The kernel kills a process, for the whole host or, with a limit, within one cgroup; the kill 2 ms in.

    Figures of the table are pages, those of the last lines kB.
    """
    pages = (limit_kib or 773_824_512) // 4 - 400_000
    report = [
        f"{name} invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), order=0,"
        " oom_score_adj=0",
        f"CPU: 37 PID: {pid} Comm: {name} Tainted: P           OE      6.8.0-60-generic #63-Ubuntu",
        *_STACK,
        *_usage(cgroup, limit_kib),
        *_HEAD,
        _task_row(pid - 20_000, 91_827_364, 11_998_208, 47_104, 118_489_088, "python3"),
        _task_row(pid, pages + 8_000_000, pages, 0, 1_587_314_688, name),
    ]
    scope = f"oom_memcg={cgroup}" if limit_kib else "global_oom"
    constraint = "CONSTRAINT_MEMCG" if limit_kib else "CONSTRAINT_NONE"
    prefix = "Memory cgroup out of memory" if limit_kib else "Out of memory"
    kill = [
        f"oom-kill:constraint={constraint},nodemask=(null),cpuset=cri-containerd-7d1f.scope,mems_allowed=0-1,{scope},"
        f"task_memcg={cgroup}/cri-containerd-7d1f.scope,task={name},pid={pid},uid=0",
        f"{prefix}: Killed process {pid} ({name}) total-vm:{(pages + 8_000_000) * 4}kB,"
        f" anon-rss:{pages * 4}kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1550112kB oom_score_adj:0",
    ]
    reaped = f"oom_reaper: reaped process {pid} ({name}), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"
    return [*spread(at_ns, report, 100 * US), *spread(at_ns + 2 * MS, kill, 9 * US), (at_ns + 640 * MS, reaped)]


def _usage(cgroup: str, limit_kib: int | None) -> list[str]:
    if limit_kib:
        return [
            f"memory: usage {limit_kib}kB, limit {limit_kib}kB, failcnt 88121",
            "swap: usage 0kB, limit 0kB, failcnt 0",
            f"Memory cgroup stats for {cgroup}:",
        ]
    return [
        "Mem-Info:",
        "active_anon:1042 inactive_anon:501773210 isolated_anon:0",
        "Node 0 Normal free:171292kB boost:0kB min:171552kB low:1228024kB high:2284496kB reserved_highatomic:0KB",
    ]


def _task_row(pid: int, total: int, anon: int, file: int, tables: int, name: str) -> str:
    memory = f"{total:8d} {anon + file:8d} {anon:8d} {file:8d} {0:9d} {tables:8d} {0:8d}"
    return f"[{pid:7d}] {0:5d} {pid:5d} {memory}         {0:5d} {name}"


def cgroup_of(job: Job, place: int) -> str:
    """The control group of the job's pod or step on one node."""
    if job.platform == "slurm":
        return f"/system.slice/slurmstepd.scope/job_{job.job_id}/step_0/user"
    uid = str(uuid5(NAMESPACE_DNS, pod_name(job, place))).replace("-", "_")
    return f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"


def blocked(task: str, pid: int, at_ns: int, frames: list[str]) -> list[Timed]:
    """A task has waited for two minutes in the kernel."""
    texts = [
        f"INFO: task {task}:{pid} blocked for more than 120 seconds.",
        "      Tainted: P           OE      6.8.0-60-generic #63-Ubuntu",
        '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
        f"task:{task:<15} state:D stack:0     pid:{pid} tgid:{pid} ppid:1      flags:0x00004002",
        "Call Trace:",
        " <TASK>",
        *[f" {frame}" for frame in frames],
        " </TASK>",
    ]
    return spread(at_ns, texts, 15 * US)


def panic(at_ns: int, rng: Random) -> list[Timed]:
    """An oops in the kernel that ends in a panic."""
    cpu = rng.randrange(224)
    texts = [
        "BUG: unable to handle page fault for address: ffffb8a1c0dff018",
        "#PF: supervisor read access in kernel mode",
        "Oops: Oops: 0000 [#1] PREEMPT SMP NOPTI",
        f"CPU: {cpu} UID: 0 PID: 4411 Comm: kworker/u897:2 Tainted: P           OE      6.8.0-60-generic #63-Ubuntu",
        "RIP: 0010:xas_load+0x1c/0x90",
        "Kernel panic - not syncing: Fatal exception",
    ]
    return spread(at_ns, texts, 3 * MS)


def nvme_dies(at_ns: int) -> list[Timed]:
    """A drive stops answering: timeouts, a reset that fails, errors of the file system, read-only."""
    first = [
        "nvme nvme1: I/O tag 22 (5016) opcode 0x1 (I/O Cmd) QID 17 timeout, aborting req_op:WRITE(1) size:131072",
        "nvme nvme1: I/O tag 23 (b017) opcode 0x1 (I/O Cmd) QID 17 timeout, aborting req_op:WRITE(1) size:131072",
    ]
    second = [
        "nvme nvme1: I/O tag 22 (5016) opcode 0x1 (I/O Cmd) QID 17 timeout, reset controller",
        "nvme nvme1: Abort status: 0x371",
    ]
    third = [
        "nvme nvme1: Device not ready; aborting reset, CSTS=0x1",
        "nvme nvme1: Disabling device after reset failure: -19",
        "I/O error, dev nvme1n1, sector 1953523712 op 0x1:(WRITE) flags 0x103000 phys_seg 16 prio class 2",
        "Buffer I/O error on dev nvme1n1, logical block 244190464, lost async page write",
        "Aborting journal on device nvme1n1-8.",
        "EXT4-fs error (device nvme1n1): ext4_journal_check_start:84: comm python3: Detected aborted journal",
        "EXT4-fs (nvme1n1): Remounting filesystem read-only",
    ]
    return [*spread(at_ns, first), *spread(at_ns + 30_000 * MS, second), *spread(at_ns + 42_000 * MS, third, 9 * MS)]


def nic_fails(device: str, at_ns: int) -> list[Timed]:
    """The firmware of a network adapter stops."""
    head = f"mlx5_core {device}: "
    texts = [
        f"{head}poll_health:853:(pid 0): device's health compromised - reached miss count",
        f"{head}print_health_info:432:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
        f"{head}print_health_info:436:(pid 0): assert_var[0] 0x00000001",
        f"{head}print_health_info:446:(pid 0): synd 0x1: firmware internal error",
        f"{head}mlx5_health_try_recover:335:(pid 911): handling bad device here",
        f"{head}mlx5_error_sw_reset:225:(pid 911): start",
        f"{head}mlx5_health_try_recover:352:(pid 911): health recovery failed",
    ]
    return spread(at_ns, texts, 250 * MS)


def link_down(device: str, interface: str, at_ns: int) -> list[Timed]:
    """An Ethernet link of the fabric goes down."""
    return [(at_ns, f"mlx5_core {device} {interface}: Link down")]


def link_up(device: str, interface: str, at_ns: int) -> list[Timed]:
    """It is up again."""
    return [(at_ns, f"mlx5_core {device} {interface}: Link up")]


def cable_error(device: str, at_ns: int) -> list[Timed]:
    """The transceiver or cable reports a fault."""
    text = "Port module event[error]: module 0, Cable error, Bad or shorted cable/module"
    return [(at_ns, f"mlx5_core {device}: mlx5_pme:1211:(pid 0): {text}")]


def throttled(at_ns: int, rng: Random) -> list[Timed]:
    """Processors are throttled for heat."""
    cpus = sorted(rng.sample(range(112), 6))
    texts = [
        f"CPU{cpu}: Package temperature is above threshold, cpu clock is throttled"
        f" (total events = {rng.randrange(9, 99)})"
        for cpu in cpus
    ]
    return spread(at_ns, texts, 30 * US)
