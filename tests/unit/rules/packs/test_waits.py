"""Lines that say how long something waited begin at the start of the wait."""

from __future__ import annotations

import pytest

from epicenter.rules.detect.signal import signal_of
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.waits import stated_wait_ns
from tests.support.logs import a_scanner, batch, kernel, the_rules, vector

OF_KERNEL = {
    "Xid 119": (
        45,
        "NVRM: Xid (PCI:0000:9a:00): 119, pid=991, name=python3, Timeout after 45s of waiting for RPC "
        "response from GPU3 GSP! Expected function 76 (GSP_RM_CONTROL).",
    ),
    "Xid 119 without a process": (
        6,
        "NVRM: Xid (PCI:0000:9a:00): 119, Timeout after 6s of waiting for RPC response from GPU1 GSP!",
    ),
    "nfs, hard mount": (60, "nfs: server nas-2 not responding, still trying"),
    "nfs, soft mount": (60, "nfs: server nas-2 not responding, timed out"),
    "hung task": (122, "INFO: task python3:4711 blocked for more than 122 seconds."),
    "RCU stall, HZ=250": (
        21,
        "INFO: rcu_sched self-detected stall on CPU { 14} (t=5250 jiffies g=8812 c=8811 q=4410)",
    ),
    "RCU stall, HZ=1000": (
        60,
        "INFO: rcu_sched self-detected stall on CPU { 14} (t=60001 jiffies g=8812 c=8811 q=4410)",
    ),
    "RCU stall, expedited": (
        21,
        "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 7-.... } 21450 jiffies s: 811",
    ),
    "RCU kthread": (
        50,
        "rcu: rcu_sched kthread starved for 15002 jiffies! g91213 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x402",
    ),
    "soft lockup": (26, "watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python3:4711]"),
    "work queue": (41, "BUG: workqueue lockup - pool cpus=14 node=0 flags=0x0 nice=0 stuck for 41s!"),
    "CSD lock": (
        5,
        "smp: csd: Detected non-responsive CSD lock (#1) on CPU#12, waiting 5000000123 ns for CPU#77 "
        "do_flush_tlb_all+0x0/0x30((null)).",
    ),
    "NVMe": (
        30,
        "nvme nvme2: I/O tag 214 (00d6) opcode 0x1 (I/O Cmd) QID 12 timeout, aborting req_op:WRITE(1) size:131072",
    ),
    "SCSI": (180, "sd 0:0:0:0: [sda] tag#12 timing out command, waited 180s"),
    "iSCSI": (120, "session1: session recovery timed out after 120 secs"),
    "network card": (5, "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out 5120 ms"),
}
OF_WORKERS = {
    "NCCL watchdog": (
        600,
        "[rank3]:[E302 09:10:00.123456789 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=4817, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.",
    ),
    "store, clients": (
        901,
        "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 7/8 clients joined.",
    ),
    "store, wait": (
        300,
        "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cpu//0",
    ),
    "store, socket in s": (
        60,
        "TimeoutError: The client socket has timed out after 60s while trying to connect to (10.9.0.4, 29400).",
    ),
    "store, socket in ms": (
        300,
        "torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while "
        "trying to connect to (gpu-c-01, 29500).",
    ),
    "store, connect": (900, "RuntimeError: connect() timed out. Original timeout was 900000 ms."),
    "Gloo": (
        1800,
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out "
        "waiting 1800000ms for recv operation to complete",
    ),
    "monitored barrier": (
        1800,
        "[E ProcessGroupGloo.cpp:138] [Rank 0]: Ranks 3, 5 failed to pass monitoredBarrier in 1800000 ms",
    ),
    "JAX": (
        100,
        "E0302 09:00:53.110000 140 coordination_service.cc:535] /job:jax_worker/replica:0/task:3 has "
        "been set to ERROR in coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 "
        "heartbeat timeout. This indicates that the remote task has failed, got preempted, or crashed "
        "unexpectedly.",
    ),
    "data loader": (120, "RuntimeError: DataLoader timed out after 120 seconds"),
    "Ray": (
        60,
        "[2026-03-02 09:14:01,094 C 77 77] gcs_rpc_client.h:201: Failed to connect to GCS within 60 "
        "seconds. GCS may have been killed.",
    ),
    "Slurm": (300, "slurmctld: error: Nodes gpu-b-031 not responding, setting DOWN"),
}


def waits_s(values: list[bytes]) -> list[float]:
    signals = [signal_of(the_rules(), match) for match in a_scanner().scan(batch(values)).matches]
    return [(signal.event_time_ns - signal.onset_ns) / NS_PER_S for signal in signals]


@pytest.mark.parametrize(("wait_s", "text"), OF_KERNEL.values(), ids=list(OF_KERNEL))
def test_a_kernel_line_begins_at_the_start_of_its_wait(wait_s: int, text: str) -> None:
    assert [int(found_s) for found_s in waits_s([kernel("n1", 5000, text)])] == [wait_s]


@pytest.mark.parametrize(("wait_s", "text"), OF_WORKERS.values(), ids=list(OF_WORKERS))
def test_a_worker_line_begins_at_the_start_of_its_wait(wait_s: int, text: str) -> None:
    assert [int(found_s) for found_s in waits_s([vector("n1", 5000, text, "A")])] == [wait_s]


def test_the_wait_of_an_rcu_stall_may_come_lines_later() -> None:
    report = (
        "rcu: INFO: rcu_preempt self-detected stall on CPU",
        "rcu: \t14-....: (5249 ticks this GP) idle=0b2/1/0x4000000000000000 softirq=1/2 fqs=2600",
        "rcu: \t(t=5250 jiffies g=8812 q=4410 ncpus=64)",
    )
    assert waits_s([kernel("n1", 5000, line) for line in report]) == [21]


@pytest.mark.parametrize(
    ("text", "unit", "wait_s"),
    [
        *[
            ("45", "s", 45),
            ("600029", "ms", 600.029),
            ("300000ms", "s", 300),
            ("5 min", "s", 300),
            ("312.5", "s", 312.5),
        ],
        *[("2100", "jiffies", 21), ("300", "jiffies", 0), ("unknown", "s", 0), ("9" * 18, "ms", 0)],
    ],
)
def test_a_number_states_a_wait_in_its_unit(text: str, unit: str, wait_s: float) -> None:
    assert stated_wait_ns(text, unit) == round(wait_s * NS_PER_S)
