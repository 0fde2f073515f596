"""Writes `input.jsonl` of every scenario: `python -m tests.scenarios.make_inputs`. Then review the changes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.support.logs import fluent_bit, journald, vector

HERE = Path(__file__).parent
Line = tuple[float, bytes]


def steps(node: str, job: str, until_s: float, pace_s: float = 5) -> list[Line]:
    """MaxText's line for each step, from its first node only."""
    text = "completed step: {}, seconds: 5.000, TFLOP/s/device: 380.102, total_weights: 524288, loss: 2.871"
    count = int(until_s / pace_s)
    return [(pace_s * n, vector(node, pace_s * n, text.format(n), job)) for n in range(count + 1)]


def worker(node: str, second: float, text: str, job: str) -> Line:
    return second, vector(node, second, text, job)


def other_shipper(node: str, second: float, text: str, job: str) -> Line:
    return second, fluent_bit(node, second, text, job)


def kernel(node: str, second: float, text: str) -> Line:
    return second, journald(node, second, text)


def starts(job: str, *nodes: str) -> list[Line]:
    """What NCCL prints on every node when a job begins: it shows the core where the job runs."""
    text = "{}:991:1203 [0] NCCL INFO ncclCommInitRank comm 0x55d00003a9c0 rank {} nranks {} cudaDev 0 - Init START"
    return [worker(node, rank / 10, text.format(node, rank, len(nodes)), job) for rank, node in enumerate(nodes)]


def timeout(node: str, second: float, rank: int, job: str, ran_ms: int) -> Line:
    text = (
        f"[rank{rank}]:[E302 09:11:{second % 60:012.9f} ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=412, OpType=ALLREDUCE, NumelIn=2048, NumelOut=2048, "
        f"Timeout(ms)=600000) ran for {ran_ms} milliseconds before timing out."
    )
    return worker(node, second, text, job)


def traceback(node: str, second: float, rank: int, job: str) -> Line:
    return worker(node, second, f"[rank{rank}]: Traceback (most recent call last):", job)


def remote_error(node: str, second: float, rank: int, job: str) -> Line:
    text = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
    return other_shipper(node, second, f"[rank{rank}]: {text}", job)


def cancelled(node: str, second: float, job: str) -> Line:
    stamp = f"2026-03-02T09:{int(second) // 60:02d}:{int(second) % 60:02d}"
    return worker(node, second, f"slurmstepd: error: *** STEP {job}.0 ON {node} CANCELLED AT {stamp} ***", job)


def oom(node: str, second: float, pid: int) -> Line:
    return kernel(
        node,
        second,
        f"Out of memory: Killed process {pid} (pt_data_worker) total-vm:812345678kB, anon-rss:501234567kB, "
        "file-rss:4kB, shmem-rss:20480kB, UID:1000 pgtables:1002340kB oom_score_adj:0",
    )


def loader_died(node: str, second: float, pid: int, rank: int, job: str) -> Line:
    text = f"[rank{rank}]: RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Killed. "
    return other_shipper(node, second, text, job)


SCENARIOS: dict[str, Iterable[Line]] = {
    "gpu_off_bus_then_timeouts": [
        *starts("7877", "n1", "n2", "n3", "n4"),
        *steps("n1", "7877", 60),
        kernel("n3", 61.2, "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."),
        kernel("n3", 61.3, "NVRM: GPU 0000:9a:00.0: GPU has fallen off the bus."),
        *(timeout(f"n{1 + rank}", 662 + rank / 8, rank, "7877", 600_012 + rank) for rank in range(4)),
        *(traceback(f"n{1 + rank}", 664 + rank / 8, rank, "7877") for rank in range(4)),
        cancelled("n1", 670, "7877"),
    ],
    "host_oom_then_remote_errors": [
        *starts("7878", "n1", "n2", "n3"),
        *steps("n1", "7878", 30),
        oom("n2", 41.5, 20417),
        loader_died("n2", 42.1, 20417, 1, "7878"),
        traceback("n2", 42.2, 1, "7878"),
        remote_error("n1", 45.1, 0, "7878"),
        remote_error("n3", 45.3, 2, "7878"),
    ],
    "job_stops_without_a_line": [
        *starts("7879", "n1", "n2"),
        *steps("n1", "7879", 60),
        *(worker("n2", minute * 60, "still alive", "7879") for minute in range(1, 20)),
    ],
    "job_finishes": [
        *starts("7880", "n1", "n2"),
        *steps("n1", "7880", 60),
        worker("n1", 62, "  Status: SUCCESS (exit 0)", "7880"),
        *(worker("n2", minute * 60, "uploading artifacts", "7880") for minute in range(2, 30)),
    ],
    "illegal_access_with_xid_31": [
        *starts("7881", "n1", "n2"),
        *steps("n1", "7881", 20),
        kernel(
            "n2",
            24.1,
            "NVRM: Xid (PCI:0000:c6:00): 31, pid=70011, name=python, Ch 0000001e, intr 00000000. MMU Fault: ENGINE "
            "GRAPHICS GPCCLIENT_T1_3 faulted @ 0x7f2a_5e000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
        ),
        worker(
            "n2", 24.6, "[rank1]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "7881"
        ),
        traceback("n2", 24.7, 1, "7881"),
        remote_error("n1", 27, 0, "7881"),
    ],
    "one_node_fails_two_jobs": [
        *starts("A", "n1", "n2"),
        *starts("B", "n2", "n3"),
        oom("n2", 30, 31002),
        loader_died("n2", 30.4, 31002, 1, "A"),
        remote_error("n1", 32, 0, "A"),
        remote_error("n3", 33, 1, "B"),
    ],
    "one_rank_never_joins": [
        *starts("7882", "n1", "n2"),
        *steps("n1", "7882", 60),
        *(timeout(f"n{1 + rank // 4}", 662 + rank / 8, rank, "7882", 600_012 + rank) for rank in (0, 1, 2, 3, 4, 6, 7)),
        *(traceback(f"n{1 + rank // 4}", 664 + rank / 8, rank, "7882") for rank in (0, 1, 2, 3, 4, 6, 7)),
    ],
    "two_jobs_fail_apart_on_a_shared_node": [
        *starts("A", "n1", "n2"),
        *starts("B", "n2", "n3"),
        worker(
            "n1",
            30,
            "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total "
            "capacity of 79.10 GiB of which 1.20 GiB is free.",
            "A",
        ),
        remote_error("n2", 31, 1, "A"),
        worker("n3", 40, "[rank1]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "B"),
        remote_error("n2", 41, 0, "B"),
    ],
}


def main() -> None:
    """Write them all."""
    for name, lines in SCENARIOS.items():
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        in_order = [value for _, value in sorted(lines, key=lambda line: line[0])]
        (folder / "input.jsonl").write_bytes(b"\n".join(in_order) + b"\n")


if __name__ == "__main__":
    main()
