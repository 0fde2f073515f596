"""The bundled rules do as their own examples say, in words that others know."""

from __future__ import annotations

import re

import pytest

from rules.match.hyperscan import HyperscanScanner
from rules.match.reference import ReferenceScanner
from rules.ruleset import Rule, is_named
from rules.signal import pci_address
from stream.rule_commands import example_failures
from tests.support.logs import a_scanner, batch, iso, the_rules

VOCABULARY = re.compile(
    r"""(?x)
    s?xid-\d+ | gpu-(?:fallen-off-bus|thermal|lost|memory-leak|memory-fragmentation|idle-while-queued)
    | nvlink-error | nvidia-(?:driver-load-fail|version-mismatch|rminit-fail|gpu-unresponsive|peermem-error)
    | fabric-manager-error | amdgpu-(?:ring-timeout|gpu-reset|ras-error|page-fault|xgmi-error|smu-error)
    | (?:host|cgroup)-oom-kill | oom-(?:host|gpu|dataloader-host) | page-alloc-fail | shm-exhausted
    | mce-(?:un)?corrected | edac-[cu]e | cpu-(?:thermal-throttle|oversubscribed)
    | pcie-(?:aer-(?:fatal|nonfatal|corrected)|link-degraded) | node-(?:reboot|fail) | power-supply-fault
    | hung-task | (?:soft|hard)-lockup | rcu-stall | kernel-(?:panic|oops-bug) | general-protection-fault | segfault
    | nvme-(?:timeout|io-error) | block-io-error | raid-failure | ext4-error | xfs-shutdown | fs-readonly
    | fuse-fs-error | nfs-server-not-responding | storage-(?:stale-handle|timeout) | lustre-error | disk-full
    | inode-exhausted | vfs-file-max | checkpoint-(?:save|load)-fail
    | nic-(?:link-down|tx-timeout) | ib-link-down | mlx5-(?:health|module)-error | efa-error | rdma-transport-fail
    | nccl-(?:fallback-socket|timeout|error|net-ib-error|nic-fail) | collective-mismatch | gloo-error | mpi-abort
    | rendezvous-timeout | socket-timeout | connection-reset
    | cuda-(?:illegal-access|device-assert|launch-failure|ecc-error|driver-mismatch) | cu(?:blas|dnn)-error | no-gpu
    | hip-error | xla-compile-fail | heartbeat-timeout | jax-coordination-error | tpu-init-fail
    | python-exception | import-error | subprocess-fail | signal-kill | sig(?:abrt|bus|kill|term-cancelled)
    | elastic-worker-failed | dataloader-(?:worker-died|starved) | actor-fail | hang(?:-py-spy)? | straggler
    | unknown-death | log-truncated | stage-fail | nan-loss | loss-divergence | slow-gpu
    | ray-(?:start-fail|worker-died|actor-died|oom-kill|gcs-fail|object-store-full|pending|serve-fail|data-backpressure)
    | raylet-died
    | slurm-(?:cancelled|time-limit|node-fail|oom|preempted|exit-nonzero|dependency-failed)
    | (?:preflight|pull|ecc|train)-timeout | port-fail | model-not-found | patch-branch-fail | cancelled
    | container-(?:pull|load|runtime)-fail
    | k8s-(?:image-pull|oomkilled|evicted|unschedulable|taint-mismatch|preempted|node-notready|crashloop)
    | preemption-(?:notice|frequent) | auth-expired | hf-hub-download-fail | wandb-no-key | crlf-script | sync-fail
    | zombie-vram | plot-too-large | vllm-engine-died | inference-overload | queue-wait-high | demand-over-capacity
    """
)
NO_FAILURES = {"placement", "progress", "finished", "harmless"}
"""What a line says when all is well; these are no classes of failures."""

RULES = [pytest.param(rule, id=rule.spec.id) for rule in the_rules().rules]
PATTERNS = the_rules().expressions


@pytest.mark.parametrize("scanner", [HyperscanScanner, ReferenceScanner])
def test_every_example_does_as_it_should(scanner: type[HyperscanScanner] | type[ReferenceScanner]) -> None:
    assert example_failures(the_rules(), scanner(PATTERNS)) == []


@pytest.mark.parametrize("rule", RULES)
def test_classes_and_parents_are_words_of_the_vocabulary(rule: Rule) -> None:
    for name in {rule.spec.failure_class} - NO_FAILURES:
        assert VOCABULARY.fullmatch(name), name


@pytest.mark.parametrize("rule", RULES)
def test_classes_and_roles_agree(rule: Rule) -> None:
    assert (rule.spec.role in NO_FAILURES) == (rule.spec.failure_class in NO_FAILURES)


@pytest.mark.parametrize("rule", RULES)
def test_who_is_woken_is_told_what_to_do(rule: Rule) -> None:
    if rule.spec.severity in ("error", "critical"):
        assert rule.spec.next_steps
        assert rule.spec.references


@pytest.mark.parametrize("rule", RULES)
def test_the_waiting_time_is_a_field_of_the_pattern(rule: Rule) -> None:
    if rule.spec.waited and rule.spec.waited.field:
        assert all(rule.spec.waited.field in pattern.groupindex for pattern in rule.patterns)


def test_every_edge_joins_words_of_the_vocabulary() -> None:
    for edge in the_rules().edges:
        for name in (*edge.cause, *edge.effect):
            assert VOCABULARY.fullmatch(name.replace("*", "1")), name


def test_no_edge_explains_a_class_by_itself() -> None:
    assert [edge for edge in the_rules().edges for name in edge.effect if is_named(name, edge.cause)] == []


@pytest.mark.parametrize(
    ("line", "gpu"),
    [
        ("NVRM: Xid (PCI:0008:06:00 GPU-I:02): 79, GPU has fallen off the bus.", "0008:06:00"),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000010", "0000:03:00"),
        ("NVRM: GPU 0000:9a:00.0: GPU has fallen off the bus.", "0000:9a:00"),
        ("NVRM: GPU at 00000000:05:00.0 has fallen off the bus.", "0000:05:00"),
        (
            "NVRM: The NVIDIA GPU 0000:9a:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
            "NVRM: fallen off the bus and is not responding to commands.",
            "0000:9a:00",
        ),
    ],
    ids=["mig", "very-old-driver", "short", "old-short", "long"],
)
def test_the_gpu_of_a_kernel_line(line: str, gpu: str) -> None:
    (found,) = a_scanner().scan(batch([f"{iso(0)} n1 kernel: {line}".encode()])).matches
    assert pci_address(found.fields["pci"]) == gpu
