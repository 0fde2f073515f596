"""What a healthy cluster's kernels log all day, and at boot.

Sources: Linux 6.8 to 6.12, NVIDIA r570; the catalogue's list of lines that look bad and are not.
"""

from __future__ import annotations

from random import Random
from typing import Final

from epicenter.ingest.simulate.clockwork import Process
from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.headers import spread
from epicenter.ingest.simulate.model import MS, US, Node

_BOOT: Final = (
    (0, "Linux version 6.8.0-60-generic (buildd@lcy02-amd64-060) (gcc 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC"),
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


def emit_boot(cluster: Cluster, node: Node) -> None:
    """The kernel's start-up chatter, as a restarted reader reads the ring again: old uptimes, new receipt."""
    for i, (uptime_ms, text) in enumerate(_BOOT):
        cluster.kernel(node, [(cluster.now_ns + i * 20 * US, text)], uptime_ms * MS)


def chatter(cluster: Cluster, node: Node) -> Process:
    """The node's harmless kernel lines, until it dies."""
    rng = cluster.rng(f"murmur/{node.index}")
    per_minute = cluster.scenario.kernel_noise_per_minute
    if node.index % 3 == 0:
        emit_boot(cluster, node)
    while per_minute and not node.is_dead:
        yield rng.expovariate(per_minute / 60)
        cluster.kernel(node, spread(cluster.now_ns, kernel_noise(rng), 7 * US))


def kernel_noise(rng: Random) -> list[str]:
    """One harmless event on a node, of one to six lines."""
    veth = f"veth{rng.getrandbits(32):08x}"
    unit = rng.choice(("apt-news.service - Update APT News", "logrotate.service - Rotate log files"))
    took, nic = rng.randrange(2501, 4000), rng.choice(("0000:5e:00.0", "0000:9a:00.0"))
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
        [
            f"mlx5_core {nic}: mlx5_cmd_out_err:833:(pid {took}): ACCESS_REG(0x805) op_mod(0x1) failed, status bad"
            " operation(0x2), syndrome (0x305684), err(-22)"
        ],
        ["EXT4-fs (nvme0n1p2): error count since last fsck: 1"],
        ["mce: [Hardware Error]: Machine check events logged"],
        [f'audit: type=1400 audit(1772442{took}.123:91): apparmor="DENIED" operation="open" profile="snap.lxd"'],
    )
    return rng.choices(choices, weights=(6, 4, 3, 3, 6, 6, 4, 1, 1, 1, 0.3, 0.3, 1))[0]
