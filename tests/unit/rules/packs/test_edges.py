"""Edges between classes: looked up in both directions, and refused where classes would explain each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epicenter.rules.cause.ranking import explains
from epicenter.rules.errors import ConfigError
from epicenter.rules.model.signals import CLOCK_SKEW_NS, Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.edges import EdgeIndex, loops
from epicenter.rules.packs.load import load
from epicenter.rules.packs.spec import EdgeSpec, is_named
from tests.support.logs import the_rules
from tests.support.signals import a_signal


def an_edge(cause: list[str], effect: list[str], **more: Any) -> EdgeSpec:
    given = {"cause": cause, "effect": effect, "scope": "job", "within": "5m", "reason": "so it is"}
    return EdgeSpec.model_validate(given | more)


def test_edges_are_found_by_the_classes_that_they_join() -> None:
    first, second = an_edge(["xid-*", "!xid-43"], ["hang"]), an_edge(["xid-79"], ["hang", "gpu-lost"])
    index = EdgeIndex((first, second))
    assert index.between("xid-79", "hang") == (first, second)
    assert index.between("xid-12345", "hang") == (first,)
    assert index.between("xid-43", "hang") == index.between("hang", "xid-79") == ()
    assert index.causing("xid-79") == (first, second)


def test_the_index_of_the_catalogue_agrees_with_its_edges() -> None:
    rules = the_rules()
    names = sorted(
        {name for edge in rules.edges for name in (*edge.cause, *edge.effect) if "*" not in name and "!" not in name}
    )
    for cause in [*names[::12], "xid-79", "nccl-timeout", "host-oom-kill"]:
        for effect in [*names[::12], "hang", "xid-45", "heartbeat-timeout"]:
            plain = [edge for edge in rules.edges if is_named(cause, edge.cause) and is_named(effect, edge.effect)]
            assert list(rules.edges_between(cause, effect)) == plain


def test_no_classes_of_the_catalogue_explain_each_other() -> None:
    assert loops(the_rules().edges) == []


@pytest.mark.parametrize(
    ("edges", "rings"),
    [
        pytest.param([an_edge(["a"], ["b"]), an_edge(["b"], ["c"])], [], id="a-chain"),
        pytest.param([an_edge(["a"], ["b"]), an_edge(["b"], ["a"])], [("a", "b")], id="both-ways"),
        pytest.param(
            [an_edge(["a"], ["b"], scope="gpu"), an_edge(["b"], ["a"], scope="cluster")], [("a", "b")], id="scopes"
        ),
        pytest.param(
            [an_edge(["a"], ["b"]), an_edge(["b"], ["c"]), an_edge(["c"], ["a"])], [("a", "b", "c")], id="a-ring"
        ),
        pytest.param([an_edge(["a"], ["b"]), an_edge(["b"], ["a"], after="11s")], [], id="broken-by-time"),
        pytest.param([an_edge(["a"], ["b"]), an_edge(["b"], ["a"], after="10s")], [("a", "b")], id="by-clocks"),
        pytest.param([an_edge(["x-*"], ["b"]), an_edge(["b"], ["x-1"])], [("x-1", "b")], id="a-wildcard"),
        pytest.param([an_edge(["x-*", "!x-1"], ["b"]), an_edge(["b"], ["x-1"])], [], id="taken-out-again"),
        pytest.param(
            [an_edge(["a", "c"], ["b", "d"]), an_edge(["b"], ["a"]), an_edge(["d"], ["c"])],
            [("a", "b"), ("c", "d")],
            id="two-rings",
        ),
    ],
)
def test_cycles_of_classes_are_found(edges: list[EdgeSpec], rings: list[tuple[str, ...]]) -> None:
    assert sorted(loop.classes for loop in loops(edges)) == rings


def in_one_job(signal: Signal) -> set[str]:
    return {"A"}


@pytest.mark.parametrize(
    ("after", "lag_s", "expected"),
    [("30s", 24, False), ("30s", 25, True), ("30s", 300, True), ("30s", 301, False), ("-2s", -5, True)],
)
def test_the_shortest_lag_allows_for_clocks(after: str, lag_s: int, expected: bool) -> None:
    edge = an_edge(["a"], ["b"], after=after)
    assert explains(a_signal("a", 0, "n1"), a_signal("b", lag_s, "n2"), edge, in_one_job) is expected


def test_a_negative_lag_reaches_back_within_one_kernel() -> None:
    late, early = a_signal("a", 0, source="kernel"), a_signal("b", -3, source="kernel")
    assert not explains(late, early, an_edge(["a"], ["b"]), in_one_job)
    assert explains(late, early, an_edge(["a"], ["b"], after="-4s"), in_one_job)
    assert CLOCK_SKEW_NS == 5 * NS_PER_S


EDGE = "  - {{cause: [{}], effect: [{}], scope: {}, {}reason: so it is}}\n"
MISTAKES = [
    pytest.param(("xid-79", "hang", "node", ""), "edges.0.within: missing: add it", id="no-within"),
    pytest.param(
        ("xid-79", "hang", "node", "after: 5m, within: 5m, "), "edges.0: `within` (the longest lag)", id="too-short"
    ),
    pytest.param(
        ("xid-79", "hang", "node", "after: -6s, within: 5m, "), "edges.0.after: '-6s': an effect", id="backwards"
    ),
    pytest.param(("xid-79", "hang", "planet", "within: 5m, "), "edges.0.scope: write 'gpu'", id="scope"),
    pytest.param(("xid-79, odd", "hang", "node", "within: 5m, "), "edges.0: class odd is unknown", id="unknown-cause"),
    pytest.param(("xid-79", "odd-*", "node", "within: 5m, "), "edges.0: class odd-* is unknown", id="unknown-effect"),
    pytest.param(
        ("hang", "hang", "node", "within: 5m, "), "edges.0: `cause` contains every class of `effect`", id="itself"
    ),
    pytest.param(("hang", "xid-79", "node", "within: 5m, "), "edges.0: a cycle (with ", id="cycle"),
]


@pytest.mark.parametrize(("edge", "expected"), MISTAKES)
def test_a_mistake_in_an_edge_is_reported_with_its_place(tmp_path: Path, edge: tuple[str, ...], expected: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("pack: mine\nedges:\n" + EDGE.format(*edge))
    with pytest.raises(ConfigError) as refused:
        load([file])
    assert [problem.startswith(f"{file}:3: {expected}") for problem in refused.value.problems] == [True]


def test_all_cycles_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    ends = "node", "within: 5m, "
    back = EDGE.format("hang", "xid-79", *ends) + EDGE.format("nccl-timeout", "host-oom-kill", *ends)
    file.write_text("pack: mine\nedges:\n" + back)
    with pytest.raises(ConfigError) as refused:
        load([file])
    assert [problem.split(": ")[0] for problem in refused.value.problems] == [f"{file}:3", f"{file}:4"]
    assert "xid-79 -> hang -> xid-79 would explain each other" in refused.value.problems[0]


CASCADES = [
    ("page-alloc-fail", "kernel-panic"),
    ("k8s-preempted", "demand-over-capacity"),
    ("container-runtime-fail", "k8s-node-notready"),
    ("import-error", "ray-actor-died"),
    ("connection-reset", "gloo-error"),
    ("host-oom-kill", "nccl-timeout"),
    ("nccl-timeout", "heartbeat-timeout"),
    ("ib-link-down", "hang"),
    ("hang", "nccl-timeout"),
    ("unknown-death", "nccl-timeout"),
    ("node-fail", "nccl-timeout"),
    ("xla-compile-fail", "python-exception"),
    ("python-exception", "slurm-exit-nonzero"),
    ("nvlink-error", "nccl-timeout"),
    ("fabric-manager-error", "no-gpu"),
    ("nfs-server-not-responding", "hung-task"),
    ("kernel-panic", "nccl-timeout"),
    ("k8s-evicted", "nccl-timeout"),
    ("auth-expired", "slurm-exit-nonzero"),
    ("slurm-exit-nonzero", "slurm-dependency-failed"),
    ("gpu-thermal", "straggler"),
    ("straggler", "nccl-timeout"),
]


@pytest.mark.parametrize(("cause", "effect"), CASCADES)
def test_well_known_cascades_are_edges(cause: str, effect: str) -> None:
    assert the_rules().edges_between(cause, effect)


@pytest.mark.parametrize("effect", ["hang", "nccl-timeout", "sigkill", "connection-reset", "python-exception"])
def test_cancelling_a_job_is_no_cause(effect: str) -> None:
    assert the_rules().edges_between("slurm-cancelled", effect) == ()
