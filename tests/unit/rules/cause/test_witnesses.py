"""Whom the others name as the peer that went away."""

from __future__ import annotations

import pytest

from epicenter.rules.cause.context import IncidentContext
from epicenter.rules.cause.scope import in_scope
from epicenter.rules.cause.witnesses import Accused, accused
from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Step
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import RankPlacement
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, a_signal, alive, an_xid

OF_FOUR = IncidentContext(nodes_by_job={"A": ("n1", "n2", "n3", "n4")})


@pytest.mark.parametrize(
    ("accusers", "node"),
    [
        pytest.param({"n1": {"n2", "n3"}, "n2": {"n3"}}, "n1", id="only-it-names-none"),
        pytest.param({"n1": {"n2", "n3", "n4"}, "n2": {"n1"}}, "n1", id="most-name-it"),
        pytest.param({"n1": {"n2"}, "n2": {"n1"}}, "", id="both-name-each-other"),
        pytest.param({"n1": {"n3"}, "n2": {"n4"}}, "", id="two-named-alike"),
        pytest.param({"10.0.0.9": {"n2", "n3", "n4"}}, "n1", id="address-of-the-only-node-that-names-none"),
        pytest.param({"10.0.0.9": {"n2", "n3"}}, "", id="address-of-one-of-two"),
        pytest.param({"n1": {"n2", "n3"}, "10.0.0.7": {"n1"}}, "n1", id="an-end-of-every-lost-connection"),
        pytest.param({"n1": {"n2"}, "10.0.0.7": {"n1"}}, "", id="an-end-of-only-two"),
        pytest.param({"n9": {"n2", "n3"}, "n2": {"n1"}, "n1": {"n4"}}, "n9", id="a-node-without-logs"),
        pytest.param({"10.0.0.9": {"n2", "n3"}, "n2": {"n1"}, "n1": {"n4"}}, "", id="an-address-without-logs"),
        pytest.param({}, "", id="nobody-is-named"),
    ],
)
def test_the_lost_node_is_the_one_that_the_others_name(accusers: dict[str, set[str]], node: str) -> None:
    found = accused(accusers, OF_FOUR)
    assert (found.node if found else "") == node


@pytest.mark.parametrize(
    ("nodes", "unheard", "accusers", "node"),
    [
        pytest.param({"n1", "n2", "n3"}, {"n1", "n3"}, {"n1": {"n2"}}, "", id="a-victim-itself-for-all-that-is-known"),
        pytest.param({"n1", "n2", "n3"}, {"n3"}, {"n1": {"n2"}}, "n1", id="logs-and-names-none"),
        pytest.param({"n1", "n2", "n3"}, {"n1"}, {"n1": {"n2", "n3"}}, "n1", id="named-by-two"),
        pytest.param({"n1", "n2"}, {"n1"}, {"n1": {"n2"}}, "n1", id="the-only-other"),
    ],
)
def test_one_witness_is_enough_only_against_a_node_that_would_name_whom_it_lost(
    nodes: set[str], unheard: set[str], accusers: dict[str, set[str]], node: str
) -> None:
    context = IncidentContext(nodes_by_job={"A": nodes}, unheard_nodes_by_job={"A": unheard})
    found = accused(accusers, context)
    assert (found.node if found else "") == node


@pytest.fixture
def engine() -> Engine:
    started = Engine(the_rules())
    addresses = [RankPlacement(at(0), "default", "A", f"n{number}", address=f"10.0.0.{number}") for number in (1, 2, 3)]
    started.add([], [alive(0, "A", f"n{number}") for number in (1, 2, 3)], addresses)
    return started


def root_of(incidents: list[Incident]) -> tuple[str, str]:
    (incident,) = {incident.incident_id: incident for incident in incidents}.values()
    return incident.root_cause.failure_class, incident.root_cause.node


@pytest.mark.parametrize("peer", ["n1", "10.0.0.1", "10.0.0.1:43210", "n1.cluster.example"])
def test_a_lost_connection_is_blamed_on_the_peer_that_it_names(engine: Engine, peer: str) -> None:
    engine.add([a_match("nccl.peer_gone", 100, node, "A", fields={"peer": peer}) for node in ("n2", "n3")])
    assert root_of(engine.flush()) == ("connection-reset", "n1")


def test_a_node_is_known_by_the_address_that_it_calls_its_own(engine: Engine) -> None:
    lost = {"n2": ("10.3.0.2", "10.3.0.1"), "n3": ("10.3.0.3", "10.3.0.1"), "n1": ("10.3.0.1", "10.3.0.7")}
    engine.add(
        a_match("nccl.ib_completion", 100, node, "A", fields={"peer": peer, "local_gid": f"::ffff:{own}"})
        for node, (own, peer) in lost.items()
    )
    assert root_of(engine.flush()) == ("nccl-net-ib-error", "n1")


def test_a_failure_on_the_named_node_is_the_cause_and_not_the_first_lost_connection(engine: Engine) -> None:
    lost = [a_match("nccl.ib_completion", 100, node, "A", fields={"peer": "10.0.0.1"}) for node in ("n2", "n3")]
    engine.add([*lost, a_match("elastic.first_failure", 102, "n1", "A")])
    assert root_of(engine.flush()) == ("elastic-worker-failed", "n1")


def test_a_link_down_on_the_node_that_names_another_is_the_cause(engine: Engine) -> None:
    lost = [a_match("nccl.ib_completion", 101, "n2", "A", fields={"peer": "10.0.0.1"})]
    engine.add([a_match("nic.link_down", 100, "n2", source="kernel"), *lost])
    assert root_of(engine.flush()) == ("nic-link-down", "n2")


def test_a_dead_jax_task_is_blamed_on_the_node_with_its_number() -> None:
    nodes = [RankPlacement(at(0), "default", "A", f"n{number + 1}", node_index=number) for number in range(3)]
    dead = "The following tasks are unhealthy (stopped sending heartbeats):\n/job:jax_worker/replica:0/task:2"
    started = Engine(the_rules())
    started.add(
        [a_match("jax.heartbeat_timeout", 100, "n1", "A", text=dead)],
        [alive(0, "A", f"n{number}") for number in (1, 2, 3)],
        nodes,
    )
    assert root_of(started.flush()) == ("heartbeat-timeout", "n3")


def test_a_dead_jax_task_is_blamed_on_the_node_that_reported_its_steps() -> None:
    dead = "The following tasks are unhealthy (stopped sending heartbeats):\n/job:jax_worker/replica:0/task:2"
    started = Engine(the_rules())
    started.add(
        [a_match("jax.heartbeat_timeout", 200, "n1", "A", text=dead)],
        [Step(at(5 * step), "default", "A", f"n{rank + 1}", step, rank) for step in range(10) for rank in range(3)],
    )
    assert root_of(started.flush()) == ("heartbeat-timeout", "n3")


def test_an_error_of_the_kernel_of_a_lost_peer_without_worker_lines_is_the_cause(engine: Engine) -> None:
    lost = [a_match("nccl.peer_gone", 102, node, "A", fields={"peer": "n9:43210"}) for node in ("n2", "n3")]
    engine.add([an_xid(74, 100, "n9", source="kernel"), *lost])
    assert root_of(engine.flush()) == ("xid-74", "n9")


@pytest.mark.parametrize(
    ("cause", "effect", "is_exonerated"),
    [
        pytest.param(("xid-92", "n1"), ("python-exception", "n4"), True, id="gpu-elsewhere-and-what-befell-the-lost"),
        pytest.param(("xid-92", "n1"), ("connection-reset", "n1"), True, id="gpu-and-the-loss-on-its-node"),
        pytest.param(("xid-92", "n4"), ("connection-reset", "n1"), False, id="gpu-of-the-lost-node"),
        pytest.param(("nic-link-down", "n1"), ("connection-reset", "n1"), False, id="network"),
        pytest.param(("xid-92", "n1"), ("oom-gpu", "n1"), False, id="no-loss"),
    ],
)
def test_what_stays_within_another_node_does_not_explain_the_loss_of_one(
    cause: tuple[str, str], effect: tuple[str, str], is_exonerated: bool
) -> None:
    lost = Accused("n4", frozenset({"n1", "n2"}), frozenset({"10.3.0.8"}))
    assert lost.exonerates(a_signal(cause[0], 1, cause[1]), a_signal(effect[0], 2, effect[1])) is is_exonerated


def test_a_line_that_accuses_a_rank_names_the_node_of_that_rank() -> None:
    started = Engine(the_rules())
    placed = RankPlacement(at(0), "default", "A", "n3", rank=16, world_size=24)
    accusations = [
        a_match("nccl.bad_setup", 100 + n, f"n{n}", "A", rank=8 * n, fields={"blamed_rank": "16"}) for n in (1, 2)
    ]
    started.add(accusations, [alive(0, "A", f"n{number}") for number in (1, 2, 3)], [placed])
    assert root_of(started.flush()) == ("nccl-error", "n3")


def test_a_rank_that_a_banner_places_only_later_has_its_node_all_the_same() -> None:
    started = Engine(the_rules())
    placed = RankPlacement(at(110), "default", "A", "n3", rank=16, world_size=24)
    started.add([a_match("memory.oom_gpu", 100, "", "A", rank=16)], [alive(0, "A", "n3")], [placed])
    started.add([a_match("elastic.worker_failed", 120, "n3", "A")], [])
    assert root_of(started.flush()) == ("oom-gpu", "n3")


def test_who_lost_the_peers_that_ended_after_the_first_one_is_a_victim_too(engine: Engine) -> None:
    engine.add([], [alive(0, "A", node) for node in ("n4", "n5", "n6")])
    losses = [(100, "n2", "n1"), (101, "n3", "n1"), (103, "n4", "n2"), (104, "n5", "n4"), (105, "n6", "n5")]
    failed = [a_match("elastic.worker_failed", 110, node, "A") for node in ("n1", "n4")]
    engine.add([*(a_match("nccl.peer_gone", when, node, "A", fields={"peer": peer}) for when, node, peer in losses)])
    engine.add(failed)
    _, node = root_of(engine.flush())
    assert node == "n1"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"peer": "n9:46650"}, True),
        ({"peer": "10.0.0.9:46650", "peer_node": "n9"}, True),
        ({"peer": "n8:46650"}, False),
        ({}, False),
    ],
)
def test_a_lost_node_without_worker_lines_is_of_the_job_that_lost_it(fields: dict[str, str], expected: bool) -> None:
    card = a_signal("mlx5-health-error", 100, "n9", source="kernel")
    lost = a_signal("nccl-net-ib-error", 108, "n2", "A", fields=fields)
    assert in_scope(card, lost, "job", lambda signal: {signal.job} - {""}) is expected


def test_the_loss_of_a_victim_began_nothing_though_its_line_comes_first(engine: Engine) -> None:
    losses = [(100, "n1", "n2"), (101, "n2", "n3")]
    engine.add([a_match("nccl.peer_gone", when, node, "A", fields={"peer": peer}) for when, node, peer in losses])
    assert root_of(engine.flush()) == ("connection-reset", "n3")
