"""What the programs of a healthy simulated cluster print, exactly, and the envelopes and headers around each line.

Sources: the kernel and worker catalogues (Linux 6.8-6.12, NVIDIA r570, torch 2.8, NCCL 2.27, jaxlib 0.8, Megatron core,
MaxText, Slurm 24.11). Every function is pure; what differs between two runs comes in as an argument or from `rng`.
A block of lines is a list of `(event_time_ns, text)` in time order.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from random import Random
from typing import Any, Final
from uuid import NAMESPACE_DNS, uuid5

import msgspec

from rules.model import NS_PER_S

Timed = tuple[int, str]
"""Event time and text of one line."""

US: Final = 1_000
MS: Final = 1_000_000
BUSES: Final = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
"""PCI buses of the eight GPUs of an HGX H100 board, by CUDA index."""
SITE: Final = "/usr/local/lib/python3.12/dist-packages"
"""Where the job's image has its Python packages."""
NCCL_VERSION: Final = "2.27.3"
"""Its NCCL."""


class Host(msgspec.Struct, frozen=True):
    """One node, and the pod of the job that runs on it. Time of boot is what `[12345.678901]` counts from."""

    index: int
    gpus: int
    job: str
    framework: str
    booted_ns: int

    @property
    def name(self) -> str:
        """Node name, counted from one: `node0001`."""
        return f"node{self.index + 1:04d}"

    @property
    def ip(self) -> str:
        """Address of the node on the cluster's network."""
        return f"10.0.{self.index // 250}.{self.index % 250 + 1}"

    @property
    def ranks(self) -> range:
        """Global NCCL ranks of this node's GPUs."""
        return range(self.index * self.gpus, (self.index + 1) * self.gpus)

    def pid(self, rank: int) -> int:
        """Process id inside the pod of the process that drives `rank`; JAX has one process for all GPUs of a node."""
        return 311 + (rank - self.ranks.start if self.framework == "megatron" else 0)

    def host_pid(self, rank: int) -> int:
        """The same process, as the node's kernel numbers it."""
        return 812_000 + 40 * self.index + self.pid(rank)


def bus(gpu: int) -> str:
    """PCI address of a GPU as Xid lines write it: domain, bus and device, no function."""
    return f"0000:{BUSES[gpu]}:00"


# ---- envelopes -------------------------------------------------------------------------------------------------------


def moment(time_ns: int, form: str = "%Y-%m-%dT%H:%M:%S") -> str:
    """The time in UTC, to the second."""
    return datetime.fromtimestamp(time_ns // NS_PER_S, UTC).strftime(form)


def rfc3339_us(time_ns: int) -> str:
    """The time as rsyslog writes it: `2026-03-02T09:00:01.123456+00:00`."""
    return f"{moment(time_ns)}.{time_ns % NS_PER_S // US:06d}+00:00"


def kernel_line(host: Host, time_ns: int, text: str, uptime_ns: int | None = None) -> str:
    """One line of kern.log. `uptime_ns` is given where the kernel said it long before rsyslog read it."""
    uptime_us = (time_ns - host.booted_ns if uptime_ns is None else uptime_ns) // US
    stamp = f"[{uptime_us // 1_000_000:5d}.{uptime_us % 1_000_000:06d}]"
    return f"{rfc3339_us(time_ns)} {host.name} kernel: {stamp} {text}"


class Shipper:
    """Wraps one pod's lines: odd nodes run Vector (kubernetes_logs), even ones Fluent Bit (tail, kubernetes filter)."""

    def __init__(self, host: Host):
        self._is_vector = host.index % 2 == 0  # index 0 is node0001
        pod = f"train-{host.job}-worker-{host.index}"
        uid = str(uuid5(NAMESPACE_DNS, pod))
        container = "pytorch" if host.framework == "megatron" else "maxtext"
        labels = {
            "batch.kubernetes.io/job-name": host.job,
            "training.kubeflow.org/job-name": host.job,
            "training.kubeflow.org/replica-index": str(host.index),
            "training.kubeflow.org/replica-type": "worker",
        }
        container_id = uid.replace("-", "") * 2
        image = f"registry.cluster.local/train/{container}:26.02"
        self._file = f"/var/log/pods/training_{pod}_{uid}/{container}/0.log"
        self._vector: dict[str, Any] = {
            "container_id": f"containerd://{container_id}",
            "container_image": image,
            "container_name": container,
            "pod_ip": host.ip,
            "pod_labels": labels,
            "pod_name": pod,
            "pod_namespace": "training",
            "pod_node_name": host.name,
            "pod_uid": uid,
        }
        self._fluent_bit: dict[str, Any] = {
            "pod_name": pod,
            "namespace_name": "training",
            "pod_id": uid,
            "labels": labels,
            "host": host.name,
            "pod_ip": host.ip,
            "container_name": container,
            "docker_id": container_id,
            "container_image": image,
        }

    def wrap(self, time_ns: int, text: str, stream: str) -> str:
        """The line as the JSON that the node's shipper sends."""
        stamp = f"{moment(time_ns)}.{time_ns % NS_PER_S:09d}Z"
        if self._is_vector:
            record = {
                "file": self._file,
                "kubernetes": self._vector,
                "message": text,
                "source_type": "kubernetes_logs",
                "stream": stream,
                "timestamp": stamp,
            }
        else:
            record = {"@timestamp": stamp, "stream": stream, "log": f"{text}\n", "kubernetes": self._fluent_bit}
        return msgspec.json.encode(record).decode()


# ---- headers of the libraries ----------------------------------------------------------------------------------------


def spread(start_ns: int, texts: Iterable[str], step_ns: int = 40 * US) -> list[Timed]:
    """The texts as a block, one every `step_ns`."""
    return [(start_ns + i * step_ns, text) for i, text in enumerate(texts)]


def c10d_line(rank: int, time_ns: int, line: int, text: str) -> str:
    """A line of torch's C++ logger: month without padding, nanoseconds, place in ProcessGroupNCCL.cpp."""
    day = f"{int(moment(time_ns, '%m'))}{moment(time_ns, '%d')}"
    stamp = f"{moment(time_ns, '%H:%M:%S')}.{time_ns % NS_PER_S:09d}"
    return f"[rank{rank}]:[E{day} {stamp} ProcessGroupNCCL.cpp:{line}] {text}"


def torch_line(level: str, time_ns: int, pid: int, where: str, text: str) -> str:
    """A line of torch's Python logger; its clock shows milliseconds, padded to six digits."""
    stamp = f"{moment(time_ns, '%m%d %H:%M:%S')}.{time_ns % NS_PER_S // MS * 1000:06d}"
    return f"{level}{stamp} {pid} torch/distributed/{where}] {text}"


def absl_line(level: str, time_ns: int, thread: int, where: str, text: str) -> str:
    """A line of absl, C++ (JAX) or Python (MaxText)."""
    stamp = f"{moment(time_ns, '%m%d %H:%M:%S')}.{time_ns % NS_PER_S // US:06d}"
    return f"{level}{stamp} {thread:>7} {where}] {text}"


def nccl_prefix(host: Host, rank: int) -> str:
    """How NCCL names a rank: host, process, thread and CUDA device."""
    return f"{host.name}:{host.pid(rank)}:{host.pid(rank) + 590} [{rank - host.ranks.start}]"


# ---- kernel: noise ---------------------------------------------------------------------------------------------------

_BOOT: Final = (
    (0, "Command line: BOOT_IMAGE=/vmlinuz-6.8.0-60-generic root=UUID=6c1e ro panic=10 oops=panic nmi_watchdog=1"),
    (412, "mce: CPU supports 32 MCE banks"),
    (1_104, "ACPI BIOS Error (bug): Could not resolve symbol [\\_SB.PC00.LPC0], AE_NOT_FOUND (20230628/psargs-330)"),
    (1_932, "GHES: APEI firmware first mode is enabled by APEI bit."),
    (2_271, "pcieport 0000:60:00.0: AER: enabled with IRQ 57"),
    (2_272, "pcieport 0000:60:00.0: DPC: enabled with IRQ 57"),
    (3_018, "nvme nvme0: missing or invalid SUBNQN field."),
    (4_377, "EXT4-fs (nvme0n1p2): mounted filesystem 6c1e21f0 ro with ordered data mode. Quota mode: none."),
    (5_820, "systemd[1]: Starting systemd-modules-load.service - Load Kernel Modules..."),
    (9_415, "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0 IMC#0: DEV 0000:fe:0c.0"),
    (14_206, "nvidia: loading out-of-tree module taints kernel."),
    (14_207, "nvidia: module verification failed: signature and/or required key missing - tainting kernel"),
    (14_530, "nvidia-nvlink: Nvlink Core is being initialized, major device number 510"),
    (14_977, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  (dvs-builder@U22)"),
)


def boot_ring(host: Host, start_ns: int) -> list[Timed]:
    """The kernel's start-up chatter with its old uptime stamps, as a restarted rsyslog reads the ring again."""
    return [
        (at, kernel_line(host, at, text, uptime_ms * MS))
        for at, (uptime_ms, text) in zip(range(start_ns, start_ns + NS_PER_S, 20 * US), _BOOT, strict=False)
    ]


def kernel_noise(rng: Random) -> list[str]:
    """One harmless happening on a node: between one line and a burst of six."""
    veth = f"veth{rng.getrandbits(32):08x}"
    unit = rng.choice(("apt-news.service - Update APT News", "logrotate.service - Rotate log files"))
    took = rng.randrange(2501, 4000)
    nic = rng.choice(("0000:5e:00.0", "0000:9a:00.0"))
    choices = (
        [f"perf: interrupt took too long ({took} > 2500), lowering kernel.perf_event_max_sample_rate to 79750"],
        [f"clocksource: timekeeping watchdog on CPU{rng.randrange(224)}: hpet retried 2 times before success"],
        [f"hrtimer: interrupt took {took * 7} ns"],
        ["workqueue: blk_mq_run_work_fn hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND"],
        [f"systemd[1]: Starting {unit}...", f"systemd[1]: Finished {unit}."],
        [f"cni0: port 7({veth}) entered blocking state", f"cni0: port 7({veth}) entered forwarding state"],
        [f"cni0: port 9({veth}) entered disabled state", f"IPv6: ADDRCONF(NETDEV_CHANGE): {veth}: link becomes ready"],
        ["nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing"]
        * rng.randrange(3, 7),
        [
            f"pcieport {nic[:5]}{int(nic[5:7], 16) - 1:02x}:01.0: AER: Correctable error message received from {nic}",
            f"mlx5_core {nic}: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
            f"mlx5_core {nic}:   device [15b3:1021] error status/mask=00000001/0000e000",
            f"mlx5_core {nic}:    [ 0] {'RxErr':<22} (First)",
        ],
    )
    return rng.choices(choices, weights=(6, 4, 3, 3, 6, 6, 4, 1, 1))[0]


# ---- workers: start, steps, end --------------------------------------------------------------------------------------


def start_of_worker(host: Host, nodes: int, start_ns: int) -> list[Timed]:
    """What a node's pod prints before the first step: launcher banner, NCCL's rank to bus map, harmless warnings."""
    world = nodes * host.gpus
    first = host.ranks.start
    lines = _torchrun_start(host, nodes, start_ns) if host.framework == "megatron" else []
    adapters = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(host.gpus))
    texts = [
        f"{nccl_prefix(host, first)} NCCL INFO Bootstrap: Using eth0:{host.ip}<0>",
        f"{nccl_prefix(host, first)} NCCL INFO NET/Plugin: Could not find: libnccl-net.so.",
        f"{nccl_prefix(host, first)} NCCL INFO NET/IB : Using {adapters} [RO]; OOB eth0:{host.ip}<0>",
        f"{nccl_prefix(host, first)} NCCL INFO Using network IB",
    ]
    for rank in host.ranks:
        gpu = rank - first
        texts.append(
            f"{nccl_prefix(host, rank)} NCCL INFO ncclCommInitRankConfig comm 0x55d0{rank:04x}a9c0 rank {rank}"
            f" nranks {world} cudaDev {gpu} nvmlDev {gpu} busId {BUSES[gpu]}000 commId 0x8f3c1d2ab7e65d04"
            " - Init COMPLETE"
        )
    bar = "Loading dataset shards:   0%|          | 0/67 [00:00<?, ?it/s]"
    bar += "\rLoading dataset shards:  46%|████▋     | 31/67 [00:01<00:01, 24.81it/s]"
    texts.append(bar + "\rLoading dataset shards: 100%|██████████| 67/67 [00:02<00:00, 25.02it/s]")
    return lines + spread(start_ns + 3 * NS_PER_S, texts, 31 * MS)


def _torchrun_start(host: Host, nodes: int, start_ns: int) -> list[Timed]:
    at = start_ns + 1_200 * MS + host.index * 3 * MS
    stars = "*" * 41
    omp = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being"
    omp += " overloaded, please further tune the variable for optimal performance in your application as needed. "
    local, world = list(range(host.gpus)), nodes * host.gpus
    rendezvous = [
        "[default] Rendezvous complete for workers. Result:",
        "  restart_count=0",
        "  master_addr=node0001",
        "  master_port=29500",
        f"  group_rank={host.index}",
        f"  group_world_size={nodes}",
        f"  local_ranks={local}",
        f"  role_ranks={list(host.ranks)}",
        f"  global_ranks={list(host.ranks)}",
        f"  role_world_sizes={[world] * host.gpus}",
        f"  global_world_sizes={[world] * host.gpus}",
        "",
    ]
    later = at + 900 * MS
    return [
        *((at, torch_line("W", at, 201, "run.py:774", text)) for text in ("", stars, omp, stars)),
        *((later, torch_line("I", later, 201, "elastic/agent/server/api.py:525", text)) for text in rendezvous),
    ]


def worker_noise(host: Host, rng: Random) -> str:
    """One harmless line of a running pod."""
    rank, tokens, allocated = rng.choice(host.ranks), rng.randrange(4097, 9000), rng.randrange(21_000, 26_000)
    texts = [
        f"Token indices sequence length is longer than the specified maximum sequence length for this model ({tokens} >"
        " 4096). Running this sequence through the model will result in indexing errors",
        "huggingface/tokenizers: The current process just got forked, after parallelism has already been used."
        " Disabling parallelism to avoid deadlocks...",
    ]
    if host.framework == "megatron":
        texts += [
            f"[Rank {rank}] memory (MB) | allocated: {allocated}.5 | max allocated: 61230.2 | reserved: 64512.0"
            " | max reserved: 64512.0",
            f"{SITE}/torch/utils/data/dataloader.py:733: UserWarning: Length of IterableDataset"
            f" <__main__.Shards object at 0x7f{allocated:04x}a4f0> was reported to be 67(when accessing"
            " len(dataloader)), but 68 samples have been fetched. ",
        ]
    return rng.choice(texts)


def megatron_step(time_ns: int, step: int, steps: int, step_time_s: float, rng: Random) -> str:
    """Megatron's progress line; `step` counts from 0 and the line from 1. The last rank alone prints it."""
    return (
        f" [{moment(time_ns, '%Y-%m-%d %H:%M:%S')}.{time_ns % NS_PER_S // US:06d}]"
        f" iteration {step + 1:8d}/{steps:8d} | consumed samples: {256 * (step + 1):12d} |"
        f" elapsed time per iteration (ms): {step_time_s * rng.uniform(990, 1010):.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {rng.uniform(408, 416):.1f} | learning rate: 1.000000E-05 |"
        f" global batch size: {256:5d} | lm loss: {_loss(step, rng):.6E} | loss scale: 1.0 |"
        f" grad norm: {rng.uniform(0.8, 2.4):.3f} | number of skipped iterations: {0:3d} |"
        f" number of nan iterations: {0:3d} |"
    )


def maxtext_step(time_ns: int, step: int, step_time_s: float, rng: Random) -> str:
    """MaxText's progress line; every task prints it, one step late."""
    text = (
        f"completed step: {step}, seconds: {step_time_s * rng.uniform(0.99, 1.01):.3f},"
        f" TFLOP/s/device: {rng.uniform(408, 416):.3f}, Tokens/s/device: {rng.uniform(7100, 7200):.3f},"
        f" total_weights: 1048576, loss: {_loss(step, rng):.3f}"
    )
    return absl_line("I", time_ns, 140_110_937_163_584, "metric_logger.py:214", text)


def _loss(step: int, rng: Random) -> float:
    return 2.0 + 9.0 / (1.0 + step / 40.0) + rng.uniform(-0.02, 0.02)


def megatron_end(steps: int, at_ns: int) -> list[Timed]:
    """A finished Megatron run, as rank 0 prints it."""
    folder = "/checkpoints/gpt"
    texts = [
        f"saving checkpoint at iteration {steps:7d} to {folder} in torch_dist format",
        f"  successfully saved checkpoint from iteration {steps:7d} to {folder}",
        f"[after training is done] datetime: {moment(at_ns + 800 * MS, '%Y-%m-%d %H:%M:%S')} ",
    ]
    return spread(at_ns, texts, 400 * MS)


def maxtext_end(steps: int, at_ns: int) -> list[Timed]:
    """A finished MaxText run, as each task prints it after its last step line."""
    saved = f"Saved a checkpoint at step {steps - 1}."
    return [(at_ns, absl_line("I", at_ns, 140_110_937_163_584, "checkpointing.py:611", saved))]
