"""Who is missing at the start of a job."""

from __future__ import annotations

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.liveness.roll_call import RollCall, roll_call
from epicenter.rules.liveness.state import JobWatch, new_watch
from epicenter.rules.liveness.verdict import who_of
from epicenter.rules.model.heartbeats import Alive, NodeCount
from epicenter.rules.model.records import RankPlacement
from tests.support.heartbeats import run
from tests.support.logs import at, the_rules


def named(number: int) -> str:
    return f"gpu-a-{number:03}"


def listed(nodes: int) -> list[RankPlacement]:
    return [RankPlacement(at(0), "default", "A", named(number), is_listed=True) for number in range(nodes)]


def logging(nodes: int, without: set[int], domain: str = "") -> list[Alive]:
    return [
        Alive(at(1), "default", "A", f"{named(number)}{domain}") for number in range(nodes) if number not in without
    ]


def a_watch(nodes: int, without: set[int], with_list: bool = True, count: int = 0) -> JobWatch:
    watch = new_watch(listed(1)[0])
    for rank_placement in listed(nodes) if with_list else ():
        watch.list_node(rank_placement)
    for heartbeat in logging(nodes, without):
        watch.observe(heartbeat)
    if count:
        watch.place(NodeCount(at(0), "default", "A", named(0), count))
    return watch


@pytest.mark.parametrize("nodes", [2, 16, 128, 512])
def test_a_list_of_hosts_names_the_missing_node(nodes: int) -> None:
    assert roll_call(a_watch(nodes, {1})) == RollCall(1, nodes, (named(1),))


def test_without_a_list_only_the_number_of_missing_nodes_is_known() -> None:
    call = roll_call(a_watch(16, {1, 7}, with_list=False, count=16))
    assert (call, str(call)) == (RollCall(2, 16), "2 of 16 nodes never logged")


def test_with_a_list_of_other_names_only_the_number_of_missing_nodes_is_known() -> None:
    watch = a_watch(16, set(range(16)), count=16)
    for number in range(15):
        watch.observe(Alive(at(1), "default", "A", f"10.0.0.{number}"))
    assert roll_call(watch) == RollCall(1, 16)


@pytest.mark.parametrize("nodes", [3, 16, 128])
def test_a_job_that_never_makes_a_step_names_the_listed_node_that_never_logged(nodes: int) -> None:
    engine = Engine(the_rules())
    engine.add([], [], listed(nodes))
    (found,) = run(engine, logging(nodes, {1}), 2000)
    assert (found.failure_class, found.verdict, found.root_cause.node) == (
        "rendezvous-timeout",
        "never-started",
        named(1),
    )
    assert found.chain[0].text == f"no first step; 1 of {nodes} nodes never logged: {named(1)}"


def test_a_host_that_logs_with_its_domain_is_the_listed_one() -> None:
    engine = Engine(the_rules())
    engine.add([], [], listed(16))
    (found,) = run(engine, logging(16, {1}, domain=".cluster"), 2000)
    assert found.root_cause.node == named(1)


def test_a_job_of_two_nodes_of_which_one_logs_gives_no_verdict() -> None:
    engine = Engine(the_rules())
    engine.add([], [], listed(2))
    assert run(engine, logging(2, {1}), 2000) == []


def test_a_job_of_which_more_than_half_never_logged_gives_no_verdict() -> None:
    engine = Engine(the_rules())
    engine.add([], [], listed(16))
    assert run(engine, logging(16, set(range(9))), 2000) == []


def test_a_rank_without_a_known_node_is_named_alone() -> None:
    assert (who_of("", 2), who_of("n1", 2), who_of("n1", None)) == ("rank 2", "rank 2 on n1", "n1")
