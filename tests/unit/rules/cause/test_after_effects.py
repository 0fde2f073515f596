"""What follows a failure is named for itself where its cause was not said, and is no second cause where it was."""

from __future__ import annotations

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.stream.rule_tools.evaluate import Case, judged
from tests.support.logs import a_scanner, batch, iso, kernel, the_rules, vector

FALLEN_OFF = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4410, GPU has fallen off the bus."
PAGE_FAULT = "NVRM: Xid (PCI:0000:3b:00): 31, pid=4410, name=python, Ch 00000008, intr 00000000. MMU Fault"
STOPPED = "NVRM: Xid (PCI:0000:3b:00): 45, pid=4410, name=python, Ch 00000008"
RPC = "NVRM: _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 78!"
ASSERTION = (
    "NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F) "
    "returned from rmStatus @ mem.c:178"
)
NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 2 has 79 GiB"
RESET = "RuntimeError: Connection reset by peer"
BROKEN = "BrokenPipeError: [Errno 32] Broken pipe"
TERMINATED = (
    "W0302 09:14:26.110431 4411 torch/distributed/elastic/agent/server/api.py:704] "
    "Received Signals.SIGTERM death signal, shutting down workers"
)
LINK_DOWN = "mlx5_core 0000:c1:00.0 ens1f0: Link down"
OF_KERNEL = (FALLEN_OFF, PAGE_FAULT, STOPPED, RPC, ASSERTION, LINK_DOWN)

ALONE = {
    STOPPED: "xid-45",
    RPC: "gpu-fallen-off-bus",
    ASSERTION: "gpu-fallen-off-bus",
    RESET: "connection-reset",
    BROKEN: "connection-reset",
    TERMINATED: "sigterm-cancelled",
    LINK_DOWN: "nic-link-down",
}
BOTH = [
    (FALLEN_OFF, STOPPED, "xid-79"),
    (FALLEN_OFF, RPC, "xid-79"),
    (FALLEN_OFF, ASSERTION, "xid-79"),
    (FALLEN_OFF, LINK_DOWN, "xid-79"),
    (PAGE_FAULT, STOPPED, "xid-31"),
    (NO_MEMORY, RESET, "oom-gpu"),
    (NO_MEMORY, BROKEN, "oom-gpu"),
    (NO_MEMORY, TERMINATED, "oom-gpu"),
]


def lines_of(*texts: str) -> list[str]:
    return [_line(text, 3 * number) for number, text in enumerate(texts)]


def _line(text: str, second: int) -> str:
    return f"{iso(second)} n1 kernel: {text}" if text in OF_KERNEL else f"{iso(second)} {text}"


def record_of(text: str, second: int) -> bytes:
    return kernel("n1", second, text) if text in OF_KERNEL else vector("n1", second, text, "A")


def primary(*texts: str) -> str | None:
    layer = "kernel" if texts[0] in OF_KERNEL else "worker"
    scanner = HyperscanScanner(the_rules().expressions)
    return judged(Case("after", lines_of(*texts), [], layer=layer), the_rules(), scanner)[1]


@pytest.mark.parametrize(("text", "failure_class"), ALONE.items())
def test_an_after_effect_alone_is_evidence_of_a_class_apart(text: str, failure_class: str) -> None:
    assert primary(text) == failure_class


@pytest.mark.parametrize(("cause", "effect", "failure_class"), BOTH)
def test_an_after_effect_is_no_second_cause(cause: str, effect: str, failure_class: str) -> None:
    assert primary(cause, effect) == failure_class


@pytest.mark.parametrize(("cause", "effect", "failure_class"), BOTH)
def test_cause_and_after_effects_are_one_incident(cause: str, effect: str, failure_class: str) -> None:
    engine = Engine(the_rules())
    lines = [record_of(text, 3 * number) for number, text in enumerate((cause, effect, effect))]
    matches = a_scanner().scan(batch(lines)).matches
    assert len({found.rule for found in matches}) == 2
    engine.add(matches)
    incidents = [incident for incident in engine.flush() if not incident.merged_into]
    assert [incident.failure_class for incident in incidents] == [failure_class]
