"""Faults of GPUs, their memory, links and firmware."""

from __future__ import annotations

from typing import Final

from epicenter.ingest.simulate import jax_lines, kernel_gpu, reactions, torch_lines
from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.faults.case import TORCH, Case, FaultKind
from epicenter.ingest.simulate.headers import by_rank, spread
from epicenter.ingest.simulate.model import Timed

_FRAMES: Final = (
    '  File "/workspace/train.py", line 214, in <module>',
    "    main()",
    '  File "/workspace/train.py", line 188, in main',
    "    loss.backward()",
)


def _gpu_off_bus(cluster: Cluster, case: Case) -> Process:
    """The kernel reports it; the rank hangs or gets a CUDA error; all others wait for the timeout."""
    rng = cluster.rng(f"fault/{case.onset_ns}")
    cluster.kernel(case.node, kernel_gpu.off_bus(case.gpu, case.pid, cluster.now_ns, rng))
    if case.job.framework == "maxtext":
        yield 1.5
        yield from cuda_error_ends(cluster, case, "unspecified launch failure")
        return
    silent = set(case.job.ranks(case.place))
    yield from reactions.peers_time_out(cluster, case.job, silent)


def cuda_error_ends(cluster: Cluster, case: Case, error: str) -> Process:
    """The rank's process meets a CUDA error and ends; the others learn it."""
    case.job.is_stalled = True
    reactions.emit(cluster, case.job, case.rank, cuda_lines(case, cluster.now_ns, error))
    yield 1.2
    yield from reactions.process_ends(cluster, case.job, case.rank, 1 if case.job.framework == "maxtext" else -6)


def cuda_lines(case: Case, at_ns: int, error: str) -> list[Timed]:
    """What the rank prints about a CUDA error: the main thread's traceback, then the watchdog's end."""
    if case.job.framework == "maxtext":
        name = {"uncorrectable ECC error encountered": "ECC_UNCORRECTABLE"}.get(error, error.upper().replace(" ", "_"))
        text = f"INTERNAL: CUDA error: Failed to synchronize the stream: CUDA_ERROR_{name}: {error}"
        return spread(at_ns, jax_lines.xla_error(text))
    raised = spread(at_ns, torch_lines.cuda_error(case.rank, error, _FRAMES))
    return raised + torch_lines.cuda_in_watchdog(case.rank, at_ns + 500_000_000, error)


def _memory_error(cluster: Cluster, case: Case) -> Process:
    rng = cluster.rng(f"fault/{case.onset_ns}")
    cluster.kernel(case.node, kernel_gpu.double_bit(case.gpu, case.pid, cluster.now_ns, rng, is_sram=False))
    yield 1.3
    yield from cuda_error_ends(cluster, case, "uncorrectable ECC error encountered")


def _sram_error(cluster: Cluster, case: Case) -> Process:
    rng = cluster.rng(f"fault/{case.onset_ns}")
    cluster.kernel(case.node, kernel_gpu.double_bit(case.gpu, case.pid, cluster.now_ns, rng, is_sram=True))
    yield 1.3
    yield from cuda_error_ends(cluster, case, "uncorrectable ECC error encountered")


def _remap_failed(cluster: Cluster, case: Case) -> Process:
    cluster.kernel(case.node, kernel_gpu.remap_failed(case.gpu, case.pid, cluster.now_ns))
    yield 1.1
    yield from cuda_error_ends(cluster, case, "uncorrectable ECC error encountered")


def _nvlink(cluster: Cluster, case: Case) -> Process:
    rng = cluster.rng(f"fault/{case.onset_ns}")
    cluster.kernel(case.node, kernel_gpu.nvlink_lost(case.gpu, case.pid, cluster.now_ns, rng))
    yield 1.4
    yield from cuda_error_ends(cluster, case, "uncorrectable NVLink error detected during the execution")


def _nvswitch(cluster: Cluster, case: Case) -> Process:
    """A port of the node's NVSwitch: two GPUs behind it see their links fail."""
    rng, job = cluster.rng(f"fault/{case.onset_ns}"), case.job
    other = job.first_gpu + (case.gpu - job.first_gpu + 1) % job.gpus
    pids = {gpu: job.host_pid(job.ranks(case.place).start + gpu - job.first_gpu) for gpu in (case.gpu, other)}
    if job.framework == "maxtext":
        pids = dict.fromkeys((case.gpu, other), case.pid)
    cluster.kernel(case.node, kernel_gpu.switch_fatal(sorted({case.gpu, other}), pids, cluster.now_ns, rng))
    yield 1.6
    yield from cuda_error_ends(cluster, case, "uncorrectable NVLink error detected during the execution")


def _gsp_timeout(cluster: Cluster, case: Case) -> Process:
    """The firmware does not answer, so the rank that waits for it stalls."""
    rng = cluster.rng(f"fault/{case.onset_ns}")
    cluster.kernel(case.node, kernel_gpu.gsp_timeout(case.gpu, case.pid, cluster.now_ns, rng))
    yield from _rank_stalls(cluster, case)


def _gsp_crash(cluster: Cluster, case: Case) -> Process:
    cluster.kernel(case.node, kernel_gpu.gsp_crash(case.gpu, case.pid, cluster.now_ns))
    yield from _rank_stalls(cluster, case)


def _controller_halt(cluster: Cluster, case: Case) -> Process:
    rng = cluster.rng(f"fault/{case.onset_ns}")
    cluster.kernel(case.node, kernel_gpu.controller_halt(case.gpu, case.pid, cluster.now_ns, rng))
    yield 2.0
    yield from cuda_error_ends(cluster, case, "unspecified launch failure")


def _rank_stalls(cluster: Cluster, case: Case) -> Process:
    if case.job.framework == "maxtext":
        case.job.is_stalled = True
        yield 19.0
        yield from cuda_error_ends(cluster, case, "unspecified launch failure")
        return
    yield from reactions.peers_time_out(cluster, case.job, {case.rank})


def _amd_reset(cluster: Cluster, case: Case) -> Process:
    cluster.kernel(case.node, kernel_gpu.amd_reset(case.gpu, case.pid, cluster.now_ns))
    case.job.is_stalled = True
    yield 2.4
    text = "HIP error: unspecified launch failure"
    error = ["Traceback (most recent call last):", *_FRAMES, f"torch.AcceleratorError: {text}"]
    reactions.emit(cluster, case.job, case.rank, spread(cluster.now_ns, by_rank(case.rank, error)))
    yield 1.0
    yield from reactions.process_ends(cluster, case.job, case.rank, 1)


_GPU: Final = ("node", "gpu", "rank")

KINDS: Final = (
    FaultKind("gpu-off-bus", "xid-79", _gpu_off_bus, ("gpu-fallen-off-bus", "pcie-aer-fatal"), 15.0, names=_GPU),
    FaultKind("gpu-memory-error", "xid-48", _memory_error, ("xid-63", "xid-94", "xid-95", "cuda-ecc-error"), 14.2,
        names=_GPU),
    FaultKind("gpu-remap-failed", "xid-48", _remap_failed, ("xid-64", "xid-95", "cuda-ecc-error"), 3.0, names=_GPU),
    FaultKind("gpu-sram-error", "xid-48", _sram_error, ("xid-172", "xid-94", "xid-95", "cuda-ecc-error"), 4.5,
        names=_GPU),
    FaultKind("nvlink-lost", "xid-74", _nvlink, ("nvlink-error",), 5.0, names=_GPU),
    FaultKind("nvswitch-fatal", "sxid-20034", _nvswitch, ("xid-74", "nvlink-error"), 4.0, names=("node",)),
    FaultKind("gsp-timeout", "xid-119", _gsp_timeout, ("nvidia-gpu-unresponsive",), 4.1, names=_GPU),
    FaultKind("gsp-crash", "xid-120", _gsp_crash, ("nvidia-gpu-unresponsive",), 1.0, names=_GPU),
    FaultKind("gpu-controller-halt", "xid-62", _controller_halt, (), 4.0, names=_GPU),
    FaultKind("amd-gpu-reset", "amdgpu-ring-timeout", _amd_reset, ("amdgpu-gpu-reset", "hip-error"), 0.0,
        names=_GPU, frameworks=TORCH),
)  # fmt: skip
