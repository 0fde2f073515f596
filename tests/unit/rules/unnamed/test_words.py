"""What the words of lines suggest that no rule names: the most specific family of failures, in any dress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from epicenter.rules.model.signals import UNNAMED, UNNAMED_RULES
from epicenter.rules.packs.load import load
from epicenter.stream.scan.scan import BatchScanner
from tests.support.logs import batch

Suggest = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def suggested() -> Suggest:
    rules = load()
    unnamed = replace(rules, rules=tuple(rule for rule in rules.rules if rule.spec.id.startswith(UNNAMED_RULES)))
    scanner = BatchScanner(unnamed, "c", keep_all=True)

    def classes(line: str) -> list[str]:
        return [unnamed.of(match).spec.failure_class for match in scanner.scan(batch([line.encode()])).matches]

    return classes


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("lampd: fatal: no space left on device", "disk-full"),
        ("lampd: write to the oil store failed: disk quota exceeded", "disk-full"),
        ("ERROR lampd: quota 'GPUS' exceeded in region north", "demand-over-capacity"),
        ("lampd: cannot create shared memory segment: no space left on device", "shm-exhausted"),
        ("lampd: no free inodes left, cannot create wick.7", "inode-exhausted"),
        ("lampd: accept: too many open files", "vfs-file-max"),
        ("lampd: fork failed: resource temporarily unavailable", "cpu-oversubscribed"),
        ("lampd: cudaMalloc of 12 GiB failed: out of memory", "oom-gpu"),
        ("lampd: not enough memory for the wick table", "oom-host"),
        ("lampd: failed to allocate 4096 bytes", "oom-host"),
        ("lampd: calloc returned NULL", "oom-host"),
        ("ERROR lampd: read of shaft 7 hit an uncorrectable ECC error on GPU 3", "cuda-ecc-error"),
        ("ERROR lampd: DIMM 3 has an uncorrectable memory error", "edac-ue"),
        ("ERROR lampd: GPU 3 fell off the bus", "gpu-fallen-off-bus"),
        ("lampd: GPU 3 is lost", "gpu-lost"),
        ("ERROR lampd: GPU 3 is over-temperature", "gpu-thermal"),
        ("ERROR lampd: fan 2 failed", "cpu-thermal-throttle"),
        ("ERROR lampd: power supply 1 failed", "power-supply-fault"),
        ("ERROR lampd: PCIe link width is degraded to x4", "pcie-link-degraded"),
        ("ERROR lampd: link of eth0 is down", "nic-link-down"),
        ("lampd: raid array md0 is degraded", "raid-failure"),
        ("lampd: read of /data/oil.bin failed: stale file handle", "storage-stale-handle"),
        ("lampd: write failed: read-only file system", "fs-readonly"),
        ("lampd: read failed: input/output error", "block-io-error"),
        ("ERROR lampd: could not save checkpoint 700", "checkpoint-save-fail"),
        ("ERROR lampd: could not restore from checkpoint 700: shard 3 is missing", "checkpoint-load-fail"),
        ("lampd: failed to pull image lamps:7", "container-pull-fail"),
        ("lampd: volume oil could not be attached: timed out", "volume-mount-fail"),
        ("lampd: cannot resolve host shaft7.mine", "dns-failure"),
        ("lampd: certificate has expired, connection rejected", "auth-expired"),
        ("lampd: open of the oil valve failed: permission denied", "permission-denied"),
        ("lampd: bind to port 7000 failed: address already in use", "port-fail"),
        ("lampd: node n7 was drained: it is unhealthy", "node-drained"),
        ("lampd: node n7 is not responding", "node-fail"),
        ("lampd: cannot reach the scheduler", "scheduler-unreachable"),
        ("lampd: NCCL collective 7 timed out", "nccl-timeout"),
        ("lampd: timed out waiting for 3 of 8 ranks", "rendezvous-timeout"),
        ("lampd: error: no GPUs found", "no-gpu"),
        ("lampd: GPU 3 is hung", "nvidia-gpu-unresponsive"),
        ("ERROR lampd: driver is too old for this runtime", "cuda-driver-mismatch"),
        ("lampd: loss is nan at step 7, giving up", "nan-loss"),
        ("lampd: data loader worker 3 died", "dataloader-worker-died"),
        ("lampd: worker 3 died", "actor-fail"),
        ("lampd: undefined symbol: wick_light, cannot load liblamp.so", "import-error"),
        ("lampd: failed to load model weights of shaft 7", "model-load-fail"),
        ("lampd: connect to shaft7: connection refused", "connection-refused"),
        ("lampd: connect to shaft7: no route to host is unreachable", "connection-refused"),
        ("lampd: read from shaft7: connection reset by peer", "connection-reset"),
        ("lampd: request timed out after 30 s", "socket-timeout"),
        ("lampd: lost the lease of shaft 7, exiting", "heartbeat-timeout"),
        ("lampd: shaft 7 is stuck", "hang"),
        ("lampd[7]: segmentation fault in wick_light", "segfault"),
        ("lampd: terminated by signal 9", "signal-kill"),
        ("lampd: shaft 7 exited with code 3", "subprocess-fail"),
        ("lampd: unrecognized option '--bright'", "invalid-argument"),
        ("lampd: failed to open file oil.json", "bad-input-data"),
    ],
)
def test_words_suggest(suggested: Suggest, line: str, expected: str) -> None:
    assert suggested(line) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR lampd: failed to delete the checkpoint of shaft 7",
        "ERROR lampd: failed to send metrics to shaft 7: connection refused",
        "ERROR torch/checkpoint/node.py:7: the lamp went out",
        "lampd: the lamp of shaft 7 died",
    ],
    ids=["tidying-up", "figures-for-people", "the-name-of-a-file", "no-family"],
)
def test_words_suggest_nothing(suggested: Suggest, line: str) -> None:
    assert suggested(line) == [UNNAMED]


@pytest.mark.parametrize(
    "line",
    [
        "lampd: out of memory, retrying with less oil",
        "2026-03-02 09:14:01 WARNING lampd: connection refused",
        "lampd: timeout is 30 s",
        "If the connection fails, check the oil of shaft 7.",
        "lampd: /run/lamp.pid: no such file, not lit yet",
        "lampd: checkpoint 700 saved",
        "step 7 | loss 0.3 | errors 0 | timeouts 0",
        "lampd: GPU 3, driver 580.65, CUDA 13.0",
    ],
)
def test_a_benign_line_is_no_failure_by_its_words(suggested: Suggest, line: str) -> None:
    assert suggested(line) == []
