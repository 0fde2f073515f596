"""What the kernel prints when a GPU, its links or its firmware fail.

Sources: NVIDIA's open kernel modules (`kernel_rc.c`, `gpu.c`, `common_nvswitch.h`), the Xid catalogue, amdgpu of
Linux 6.12; PCI Express AER of Linux 6.10 and later.
"""

from __future__ import annotations

from random import Random
from typing import Final

from epicenter.ingest.simulate.headers import spread
from epicenter.ingest.simulate.model import BUSES, MS, US, Timed, bus

_RESET_REQUIRED: Final = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
_REBOOT_REQUIRED: Final = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"


def xid(gpu: int, code: int, text: str, pid: int | None = None) -> str:
    """An Xid line; with the process where the driver knows the channel's owner."""
    process = f"pid={pid}, name=python3, " if pid is not None else ""
    return f"NVRM: Xid (PCI:{bus(gpu)}): {code}, {process}{text}"


def off_bus(gpu: int, pid: int, at_ns: int, rng: Random) -> list[Timed]:
    """A GPU leaves the PCIe bus; in two of five cases its port reports it first. Then the driver's echo."""
    device, port = f"{bus(gpu)}.0", f"0000:{int(BUSES[gpu], 16) - 1:02x}:00.0"
    aer = [
        f"pcieport {port}: AER: Uncorrectable (Fatal) error message received from {device}",
        f"nvidia {device}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)",
        f"nvidia {device}:   device [10de:2330] error status/mask=00004000/00000000",
        f"nvidia {device}:    [14] {'CmpltTO':<22} (First)",
        f"nvidia {device}: AER: can't recover (no error_detected callback)",
        f"pcieport {port}: AER: device recovery failed",
    ]
    lost = [
        xid(gpu, 79, "GPU has fallen off the bus.", pid),
        f"NVRM: GPU {device}: GPU has fallen off the bus.",
        f"NVRM: GPU {device}: GPU serial number is 1652723{rng.randrange(100_000, 999_999)}.",
        "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.",
        *_lost_noise(gpu, 12, rng),
        xid(gpu, 154, _REBOOT_REQUIRED),
        *_lost_noise(gpu, 36, rng),
    ]
    first = spread(at_ns, aer, 120 * US) if rng.random() < 0.4 else []
    return first + spread(at_ns + 350 * MS, lost, 23 * MS)


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


def double_bit(gpu: int, pid: int, at_ns: int, rng: Random, is_sram: bool) -> list[Timed]:
    """An uncorrectable memory error, its remapping, its containment and the channel's end."""
    where = "GPC 2, TPC 1" if is_sram else f"in the framebuffer at partition {rng.randrange(12)}, subpartition 0"
    contained = rng.random() < 0.7
    unit = "SM (0x1)" if is_sram else "LTC Data (0x3,0x1)"
    texts = [xid(gpu, 48, f"An uncorrectable double bit error (DBE) has been detected on GPU {where}.", pid)]
    if is_sram:
        texts.append(xid(gpu, 172, "GSP-RISCV, Uncorrectable SRAM error"))
    else:
        texts.append(xid(gpu, 63, "Row Remapper: New row marked for remapping, reset gpu to activate."))
    if contained:
        texts.append(xid(gpu, 94, f"Contained: {unit}. RST: No, D-RST: No", pid))
    else:
        texts.append(xid(gpu, 95, f"Uncontained: {unit}. RST: Yes, D-RST: No", pid))
    texts += [xid(gpu, 45, f"Ch {channel:08x}", pid) for channel in range(8, 14)]
    return spread(at_ns, [*texts, xid(gpu, 154, _RESET_REQUIRED)], 40 * MS)


def remap_failed(gpu: int, pid: int, at_ns: int) -> list[Timed]:
    """A memory error that no spare row is left for."""
    texts = [
        xid(gpu, 48, "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at"
            " partition 5, subpartition 1.", pid),
        xid(gpu, 64, "Row Remapper Error: (0x00000005d28c03a0) - All reserved rows for bank are remapped"),
        xid(gpu, 95, "Uncontained: LTC Data (0x3,0x1). RST: Yes, D-RST: No", pid),
        *[xid(gpu, 45, f"Ch {channel:08x}", pid) for channel in range(8, 12)],
        xid(gpu, 154, _RESET_REQUIRED),
    ]  # fmt: skip
    return spread(at_ns, texts, 60 * MS)


def mmu_fault(gpu: int, pid: int, at_ns: int, rng: Random) -> list[Timed]:
    """A program reads where nothing is mapped."""
    fault = (
        f"Ch {rng.randrange(8, 64):08x}, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_{rng.randrange(9)}"
        f" faulted @ 0x7f{rng.getrandbits(8):02x}_{rng.getrandbits(32):08x}."
        " Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    )
    return [(at_ns, xid(gpu, 31, fault, pid))]


def channel_stopped(gpu: int, pid: int, at_ns: int) -> list[Timed]:
    """A channel is stopped because of what its own program did."""
    return [(at_ns, xid(gpu, 43, "Ch 00000010", pid))]


def nvlink_lost(gpu: int, pid: int, at_ns: int, rng: Random) -> list[Timed]:
    """A link of the GPU fails for good."""
    link = rng.randrange(18)
    fatal = f"NVLink: fatal error detected on link {link}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    cleared = [xid(gpu, 45, f"Ch {channel:08x}", pid) for channel in range(8, 12)]
    return spread(at_ns, [xid(gpu, 74, fatal), *cleared], 90 * MS)


def switch_fatal(gpus: list[int], pids: dict[int, int], at_ns: int, rng: Random) -> list[Timed]:
    """An NVSwitch port fails, and the GPUs behind it with it."""
    port, switch = rng.randrange(36), rng.randrange(4)
    head = f"nvidia-nvswitch{switch}: SXid (PCI:0000:0{switch + 5}:00.0): "
    texts = [
        f"{head}20034, Fatal, Link {port:02d} LTSSM Fault Up (First)",
        f"{head}20034, Severity 1 Engine instance {port:02d} Sub-engine instance 00",
        f"{head}20034, Data {{0x00000100, 0x00000100, 0x00000000, 0x00000000}}",
        f"{head}19084, Non-fatal, Link {port:02d} AN1 Heartbeat Timeout Error (First)",
    ]
    for gpu in gpus:
        fatal = f"NVLink: fatal error detected on link {rng.randrange(18)}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
        texts += [xid(gpu, 74, fatal), xid(gpu, 45, "Ch 00000008", pids[gpu])]
    return spread(at_ns, texts, 70 * MS)


def gsp_timeout(gpu: int, pid: int, at_ns: int, rng: Random) -> list[Timed]:
    """The GPU's firmware stops answering: three timeouts of six seconds, then the driver gives up on it."""
    sequence, lines = rng.randrange(20_000, 60_000), []
    for i in range(3):
        expected = f"Expected function 76 (GSP_RM_CONTROL) sequence {sequence + i} (0x20800a4c 0x4)."
        text = xid(gpu, 119, f"Timeout after 6s of waiting for RPC response from GPU{gpu} GSP! {expected}", pid)
        lines.append((at_ns + 6_000 * MS * (i + 1), text))
    limited = (
        f"NVRM: Rate limiting GSP RPC error prints for GPU at PCI:{bus(gpu)} (printing 1 of every 30).  The GPU likely"
        " needs to be reset."
    )
    after = [limited, xid(gpu, 109, "Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x1c005", pid)]
    after.append(xid(gpu, 154, _RESET_REQUIRED))
    return lines + spread(at_ns + 18_200 * MS, after, 300 * MS)


def gsp_crash(gpu: int, pid: int, at_ns: int) -> list[Timed]:
    """The GPU's firmware crashes and leaves a report."""
    texts = [
        xid(gpu, 120, "GSP task exception: ucode_id 0, task 2 (RM), cause 0x7 store access fault", pid),
        "NVRM: GPU0 GSP-CrashCat Report",
        "NVRM: ra:0x0000000001a2c8f4 sp:0x0000000fa1d2ee80 gp:0x0000000fa1cb0000 tp:0x0",
        xid(gpu, 109, "Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x1c005", pid),
        xid(gpu, 154, _RESET_REQUIRED),
    ]
    return spread(at_ns, texts, 110 * MS)


def controller_halt(gpu: int, pid: int, at_ns: int, rng: Random) -> list[Timed]:
    """The GPU's power controller halts."""
    words = " ".join(f"{rng.getrandbits(32):08x}" for _ in range(8))
    cleared = [xid(gpu, 45, f"Ch {channel:08x}", pid) for channel in range(8, 14)]
    return spread(at_ns, [xid(gpu, 62, words, pid), *cleared, xid(gpu, 154, _RESET_REQUIRED)], 80 * MS)


def amd_reset(gpu: int, pid: int, at_ns: int) -> list[Timed]:
    """An AMD GPU's compute ring hangs after a memory error and the driver resets it."""
    head = f"amdgpu {bus(gpu)}.0: amdgpu: "
    texts = [
        f"{head}ring comp_1.2.0 timeout, signaled seq=88120, emitted seq=88123",
        f"{head}Process information: process python3 pid {pid} thread python3 pid {pid}",
        f"{head}GPU reset begin!",
        f"{head}MODE2 reset",
        f"{head}GPU reset succeeded, trying to resume",
        "[drm] VRAM is lost due to GPU reset!",
        f"{head}GPU reset(2) succeeded!",
    ]
    return spread(at_ns, texts, 700 * MS)
