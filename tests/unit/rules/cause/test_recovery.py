"""What says that something works again answers the failures of its subject shortly before."""

from __future__ import annotations

import pytest

from epicenter.rules.cause.recovery import SOON_NS, answers
from epicenter.rules.cause.survival import may_pass
from epicenter.rules.engine import Engine
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.rule_tools.evaluate import Case, judged
from tests.support.logs import a_scanner, batch, iso, the_rules
from tests.support.signals import a_signal

LOST = "nfs: server stor-2 not responding, still trying"
PULL = 'Warning  Failed  40s  kubelet  Failed to pull image "reg/llm:v2": rpc error: code = Unknown desc = i/o timeout'


def a_kernel(*texts: str) -> list[str]:
    return [f"Mar  2 09:14:{5 + 3 * number:02d} gpu-a-12 kernel: {text}" for number, text in enumerate(texts)]


def a_program(*texts: str) -> list[str]:
    return [f"2026-03-02 09:14:{5 + 3 * number:02d},110 {text}" for number, text in enumerate(texts)]


def named(lines: list[str]) -> tuple[set[str], str | None]:
    scanner = HyperscanScanner(the_rules().expressions)
    layer = "kernel" if "kernel:" in lines[0] else "worker"
    return judged(Case("recovery", lines, [], layer=layer), the_rules(), scanner)


@pytest.mark.parametrize(
    "lines",
    [
        a_kernel(LOST, "nfs: server stor-2 OK"),
        a_kernel(
            "connection1:0: detected conn error (1020)", "connection1:0 is operational after recovery (1 attempts)"
        ),
        a_program("ERROR ConnectionResetError: [Errno 104] Connection reset by peer", "INFO reconnected to gpu-a-13"),
        [PULL, 'Normal  Pulled  3s  kubelet  Successfully pulled image "reg/llm:v2" in 41.2s'],
    ],
)
def test_what_works_again_soon_is_not_flagged(lines: list[str]) -> None:
    assert named(lines[:1])[0]
    assert named(lines) == (set(), None)


@pytest.mark.parametrize(
    ("lines", "failure_class"),
    [
        (a_kernel(LOST, "nfs: server stor-3 OK"), "nfs-server-not-responding"),
        (a_kernel("nfs: server stor-2 OK", LOST), "nfs-server-not-responding"),
        (
            a_kernel("mlx5_core 0000:c1:00.0 ens1f0: Link down", "mlx5_core 0000:c1:00.0 ens1f0: Link up"),
            "nic-link-down",
        ),
    ],
    ids=["other-server", "before", "connections-are-lost"],
)
def test_what_nothing_answers_or_what_leaves_a_trace_is_named(lines: list[str], failure_class: str) -> None:
    assert named(lines) == ({failure_class}, failure_class)


def test_link_that_comes_up_resolves_only_its_own_incident() -> None:
    engine = Engine(the_rules())
    texts = ("mlx5_core 0000:c1:00.0 ens1f0: Link down", "mlx5_core 0000:d1:00.0 ens2f0: Link up")
    lines = [f"{iso(9 * number)} n1 kernel: {text}".encode() for number, text in enumerate(texts)]
    scanned = a_scanner().scan(batch(lines))
    engine.add([*scanned.matches, *scanned.observed])
    (incident,) = engine.flush()
    assert incident.status == "open"


def test_an_answer_comes_soon_after_and_is_of_the_same_rank() -> None:
    soon_s = SOON_NS // NS_PER_S
    lost = a_signal("connection-reset", 10, rank=3)
    assert answers(a_signal("job-fact", 10 + soon_s, rank=3), lost)
    assert answers(a_signal("job-fact", 11), lost)
    assert not answers(a_signal("job-fact", 11 + soon_s, rank=3), lost)
    assert not answers(a_signal("job-fact", 9, rank=3), lost)
    assert not answers(a_signal("job-fact", 11, rank=4), lost)


def test_devices_stay_suspicious() -> None:
    assert [name for name in ("xid-79", "raid-failure", "ib-link-down", "pcie-aer-fatal") if may_pass(name)] == []
