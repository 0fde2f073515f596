"""Faults of the program itself: exceptions, CUDA errors that it causes, memory, compilation, credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from epicenter.ingest.simulate import endings, jax_lines, kernel_gpu, ray_lines, reactions, torch_lines
from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.faults.case import TORCH, TORCHRUN, Case, FaultKind
from epicenter.ingest.simulate.faults.gpu import cuda_error_ends
from epicenter.ingest.simulate.faults.node import data_loader_killed
from epicenter.ingest.simulate.headers import absl, by_rank, spread
from epicenter.ingest.simulate.model import MS, Job
from epicenter.ingest.simulate.torch_lines import Collective


def raises(cluster: Cluster, case: Case, error: list[str]) -> Process:
    """One rank ends with a Python exception, which is its last output; the others learn it."""
    job, rank = case.job, case.rank
    job.is_stalled = True
    frames = [
        "Traceback (most recent call last):",
        f'  File "{torch_lines.SCRIPTS.get(job.framework, "/deps/MaxText/train.py")}", line 214, in <module>',
        "    main()",
        f'  File "{torch_lines.SCRIPTS.get(job.framework, "/deps/MaxText/train.py")}", line 188, in main',
        "    loss = train_step(batch)",
    ]
    if job.framework == "ray":
        kind = error[0].partition(":")[0]
        task = f"ray.exceptions.RayTaskError({kind}): ray::RayTrainWorker.run() (pid={job.pid(rank)},"
        node = job.nodes[case.place]
        remote = [f"{task} ip={node.ip}, actor_id={ray_lines.node_id(job, rank)[:32]})", *frames[1:], *error]
        yield 0.5
        cluster.worker(job, 0, spread(cluster.now_ns, ray_lines.group_failed(job, {rank: remote})))
        yield from endings.failed(cluster, job, 0, ())
        return
    lines = [*frames, *error]
    block = spread(cluster.now_ns, lines if job.framework == "maxtext" else by_rank(rank, lines))
    reactions.emit(cluster, job, rank, block)
    yield 1.1
    yield from reactions.process_ends(cluster, job, rank, 1)


def _exception(cluster: Cluster, case: Case) -> Process:
    error = cluster.rng(f"fault/{case.onset_ns}").choice(
        (
            "KeyError: 'labels'",
            "ValueError: expected sequence of length 4096 at dim 1 (got 4095)",
            "RuntimeError: The size of tensor a (4096) must match the size of tensor b (4095) at non-singleton"
            " dimension 1",
            "AssertionError: batch 1207 has no tokens",
        )
    )
    yield from raises(cluster, case, [error])


def _gpu_memory(cluster: Cluster, case: Case) -> Process:
    if case.job.framework == "maxtext":
        text = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 65.85GiB. [executable_name='jit_train_step']"
        case.job.is_stalled = True
        reactions.emit(cluster, case.job, case.rank, spread(cluster.now_ns, jax_lines.xla_error(text)))
        yield 1.0
        yield from reactions.process_ends(cluster, case.job, case.rank, 1)
        return
    text = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {case.rank % case.job.gpus} has a"
        " total capacity of 79.11 GiB of which 1.21 GiB is free. Including non-PyTorch memory, this process has 77.88"
        " GiB memory in use. Of the allocated memory 74.02 GiB is allocated by PyTorch, and 2.31 GiB is reserved by"
        " PyTorch but unallocated. If reserved but unallocated memory is large try setting"
        " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory"
        " Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )
    yield from raises(cluster, case, [text])


def _illegal_access(cluster: Cluster, case: Case) -> Process:
    """A kernel of the program reads where nothing is mapped: Xid 31, then the CUDA error of that rank."""
    rng = cluster.rng(f"fault/{case.onset_ns}")
    cluster.kernel(case.node, kernel_gpu.mmu_fault(case.gpu, case.pid, cluster.now_ns, rng))
    yield 0.4
    cluster.kernel(case.node, kernel_gpu.channel_stopped(case.gpu, case.pid, cluster.now_ns))
    yield from cuda_error_ends(cluster, case, "an illegal memory access was encountered")


def _device_assert(cluster: Cluster, case: Case) -> Process:
    """A label out of range: many threads report it, then the CUDA error of that rank."""
    kernel = "indexSelectLargeIndex: "
    threads = [
        f"../aten/src/ATen/native/cuda/Indexing.cu:1289: {kernel}block: [{block},0,0], thread: [{thread},0,0] Assertion"
        " `srcIndex < srcSelectDimSize` failed."
        for block in range(2)
        for thread in range(32, 64)
    ]
    reactions.emit(cluster, case.job, case.rank, spread(cluster.now_ns, threads, 1_000))
    yield 0.3
    cluster.kernel(case.node, kernel_gpu.channel_stopped(case.gpu, case.pid, cluster.now_ns))
    yield from cuda_error_ends(cluster, case, "device-side assert triggered")


def _nan(cluster: Cluster, case: Case) -> Process:
    """The loss is no number any more, and the program gives up."""
    job = case.job
    if job.framework == "maxtext":
        job.is_stalled = True
        text = "Aborting training due to NaN loss."
        for place in range(len(job.nodes)):
            line = absl("E", 140_110_937_163_584, "metric_logger.py:250", text)
            cluster.worker(job, place, [(cluster.now_ns + place * 1_000, line)])
        yield 1.5
        yield from endings.failed(cluster, job, 0, ())
        return
    rank, node = case.rank, case.node.name
    text = f"AssertionError: Rank {rank}: found NaN in local forward loss calculation. Device: {rank % 8}, node: {node}"
    yield from raises(cluster, case, [text])


def _mismatch(cluster: Cluster, case: Case) -> Process:
    """One rank takes another branch: it waits in a broadcast while the others wait in a sum."""
    job = case.job
    sequence = job.steps_done * 48 + 7

    def work_of(rank: int) -> Collective:
        if rank == case.rank:
            return Collective(sequence, 1, round(job.timeout_s * 1000), "BROADCAST")
        return Collective(sequence, 8_388_608, round(job.timeout_s * 1000))

    yield from reactions.peers_time_out(cluster, job, (), work_of)


def _shared_memory(cluster: Cluster, case: Case) -> Process:
    """/dev/shm is full; a DataLoader worker ends with a bus error."""
    job, rank = case.job, case.rank
    job.is_stalled = True
    child = (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."
    )
    reactions.emit(cluster, job, rank, [(cluster.now_ns, child)])
    yield 0.3
    hint = "It is possible that dataloader's workers are out of shared memory."
    hint += " Please try to raise your shared memory limit."
    reactions.emit(cluster, job, rank, data_loader_killed(job, rank, cluster.now_ns, "Bus error", hint))
    yield 0.9
    yield from reactions.process_ends(cluster, job, rank, 1)


def _disk_full(cluster: Cluster, case: Case) -> Process:
    """The file system is full in the middle of a checkpoint."""
    error = [
        "RuntimeError: [enforce fail at inline_container.cc:783] . PytorchStreamWriter failed writing file data/71:"
        " file write failed",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/workspace/checkpoint.py", line 91, in save',
        "    torch.save(state, path)",
        "OSError: [Errno 28] No space left on device: '/checkpoints/step_1200/__0_0.distcp'",
    ]
    yield from raises(cluster, case, error)


def _every_rank(text: str) -> Callable[[Cluster, Case], Process]:
    return lambda cluster, case: all_raise(cluster, case.job, text)


def all_raise(cluster: Cluster, job: Job, text: str) -> Process:
    """All ranks end with the same exception at once, because they run the same program."""
    job.is_stalled = True
    rng = cluster.rng(f"all-raise/{job.job_id}")
    where = torch_lines.SCRIPTS.get(job.framework, "/deps/MaxText/train.py")
    lines = ["Traceback (most recent call last):", f'  File "{where}", line 12, in <module>', "    main()", text]
    for place in range(len(job.nodes)):
        for rank in job.ranks(place):
            texts = lines if job.framework == "maxtext" else by_rank(rank, lines)
            at = cluster.now_ns + rng.randrange(900) * MS
            reactions.emit(cluster, job, rank, spread(at, texts))
    yield 2.2
    yield from reactions.all_agents_fail(cluster, job, 1)


_IMPORT: Final = "ImportError: cannot import name 'AttnConfig' from 'model' (/workspace/model.py)"
_COMPILE: Final = (
    "jax.errors.JaxRuntimeError: INTERNAL: Failed to compile HLO module jit_train_step: ptxas exited with non-zero"
    " error code 65280, output: ptxas fatal   : Memory allocation failure"
)
TOKEN: Final = (
    "botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling the GetObject operation: The"
    " provided token has expired."
)
_RANK: Final = ("node", "rank")

KINDS: Final = (
    FaultKind("python-exception", "python-exception", _exception, (), 4.0),
    FaultKind("import-error", "import-error", _every_rank(_IMPORT), ("python-exception",), 0.5, "job", ()),
    FaultKind("gpu-out-of-memory", "oom-gpu", _gpu_memory, (), 3.0),
    FaultKind("illegal-access", "xid-31", _illegal_access, ("cuda-illegal-access", "xid-43"), 2.0, names=("node", "gpu",
        "rank")),
    FaultKind("device-assert", "cuda-device-assert", _device_assert, ("xid-43",), 1.0, frameworks=TORCH),
    FaultKind("nan-loss", "nan-loss", _nan, ("python-exception", "loss-divergence"), 1.4, "job", (),
        frameworks=("megatron", "maxtext")),
    FaultKind("collective-mismatch", "collective-mismatch", _mismatch, ("nccl-timeout",), 0.5, frameworks=TORCH),
    FaultKind("shared-memory", "shm-exhausted", _shared_memory, ("sigbus", "dataloader-worker-died"), 0.7,
        frameworks=TORCHRUN, platforms=("kubernetes",)),
    FaultKind("disk-full", "disk-full", _disk_full, ("checkpoint-save-fail",), 0.7, frameworks=TORCH),
    FaultKind("xla-compile", "xla-compile-fail", _every_rank(_COMPILE), (), 0.4, "job", (), frameworks=("maxtext",)),
    FaultKind("expired-credential", "auth-expired", _every_rank(TOKEN), (), 0.5, "job", ()),
)  # fmt: skip
