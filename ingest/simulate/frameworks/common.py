"""Lines that several frameworks share: torchrun's banner, NCCL's start, harmless warnings, the loss."""

from __future__ import annotations

from random import Random
from typing import Final

from epicenter.ingest.simulate.headers import SITE, nccl, spread, torch_python
from epicenter.ingest.simulate.model import BUSES, MS, Job, Text, Timed
from epicenter.rules.model.times import NS_PER_S

HARMLESS: Final = (
    "huggingface/tokenizers: The current process just got forked, after parallelism has already been used."
    " Disabling parallelism to avoid deadlocks...",
    f"{SITE}/torch/utils/data/dataloader.py:733: UserWarning: Length of IterableDataset"
    " <__main__.Shards object at 0x7f11a4f0a4f0> was reported to be 67(when accessing len(dataloader)), but 68 samples"
    " have been fetched. ",
    f"{SITE}/torch/distributed/distributed_c10d.py:4876: UserWarning: barrier(): using the device under current"
    " context. You can specify `device_id` in `init_process_group` to mute this warning.",
)


def loss(step: int, rng: Random) -> float:
    """A loss that falls, with some noise."""
    return 2.0 + 9.0 / (1.0 + step / 40.0) + rng.uniform(-0.02, 0.02)


def too_long(rng: Random) -> str:
    """The tokenizer's hint about a long text."""
    return (
        "Token indices sequence length is longer than the specified maximum sequence length for this model"
        f" ({rng.randrange(4097, 9000)} > 4096). Running this sequence through the model will result in indexing errors"
    )


def nccl_start(job: Job, place: int, at_ns: int) -> list[Timed]:
    """NCCL's start on one node: the adapters, a retry that succeeds, and which rank drives which bus."""
    node, ranks = job.nodes[place], job.ranks(place)
    where = nccl(job, node, ranks.start)
    adapters = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(job.gpus))
    texts: list[Text] = [
        f"{where} NCCL INFO Bootstrap: Using eth0:{node.ip}<0>",
        f"{where} NCCL INFO NET/Plugin: Could not find: libnccl-net.so.",
        f"{where} NCCL INFO NET/IB : Using {adapters} [RO]; OOB eth0:{node.ip}<0>",
        f"{where} NCCL INFO Using network IB",
    ]
    if place % 5 == 3:
        texts.append(f"{where} NCCL INFO Call to connect returned Connection refused, retrying")
    for rank in ranks:
        texts.append(
            f"{nccl(job, node, rank)} NCCL INFO ncclCommInitRankConfig comm 0x55d0{rank:04x}a9c0 rank {rank}"
            f" nranks {job.world_size} cudaDev {rank % job.ranks_per_node} nvmlDev {job.gpu(rank)} busId"
            f" {BUSES[job.gpu(rank)]}000 commId 0x8f3c1d2ab7{int(job.job_id) % 65536:04x}04 - Init COMPLETE"
        )
    return spread(at_ns, texts, 31 * MS)


def torch_start(job: Job, place: int, at_ns: int) -> list[Timed]:
    """torchrun's banner on one node; the result of its rendezvous and NCCL's start once all nodes are there."""
    if job.missing:
        return _torchrun_banner(at_ns)
    joined = _rendezvous_result(job, place, at_ns + 900 * MS)
    return _torchrun_banner(at_ns) + joined + nccl_start(job, place, at_ns + 3 * NS_PER_S)


def _torchrun_banner(at_ns: int) -> list[Timed]:
    stars = "*" * 41
    omp = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being"
    omp += " overloaded, please further tune the variable for optimal performance in your application as needed. "
    return spread(at_ns, [torch_python("W", 201, "run.py:774", text) for text in ("", stars, omp, stars)])


def _rendezvous_result(job: Job, place: int, at_ns: int) -> list[Timed]:
    ranks, world = list(job.ranks(place)), job.world_size
    texts = [
        "[default] Rendezvous complete for workers. Result:",
        "  restart_count=0",
        f"  master_addr={job.nodes[0].name}",
        "  master_port=29500",
        f"  group_rank={place}",
        f"  group_world_size={len(job.nodes)}",
        f"  local_ranks={list(range(job.gpus))}",
        f"  role_ranks={ranks}",
        f"  global_ranks={ranks}",
        f"  role_world_sizes={[world] * job.gpus}",
        f"  global_world_sizes={[world] * job.gpus}",
        "",
    ]
    return spread(at_ns, [torch_python("I", 201, "elastic/agent/server/api.py:525", text) for text in texts])
