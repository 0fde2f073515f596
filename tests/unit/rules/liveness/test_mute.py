"""A node whose logs stop while its job trains on has lost its shipper, and is not what the job later waits for."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.liveness.mute import mute_nodes
from epicenter.rules.liveness.state import JobWatch, new_watch, node_key
from epicenter.rules.liveness.streams import NodeStreams
from epicenter.rules.model.heartbeats import Alive, Heartbeat, Step
from tests.support.heartbeats import alive_every, run, steps, verdicts
from tests.support.logs import at, the_rules

NODES = ("n1", "n2", "n3", "n4")
STEPPED_S = 1200


def of_nodes(last_s_by_node: dict[str, float], sources: tuple[str, ...] = ("kernel", "worker")) -> list[Alive]:
    return [
        heartbeat
        for node in NODES
        for source in sources
        for heartbeat in alive_every(source, node, 0, last_s_by_node.get(node, STEPPED_S + 600), every_s=20)
    ]


def watched(heartbeats: Iterable[Heartbeat]) -> tuple[JobWatch, dict[str, NodeStreams]]:
    watch, streams = new_watch(steps(1)[0]), dict[str, NodeStreams]()
    for heartbeat in sorted(heartbeats, key=lambda heartbeat: heartbeat.event_time_ns):
        watch.observe(heartbeat)
        if type(heartbeat) is Step:
            watch.step(heartbeat)
        else:
            key = node_key(heartbeat.cluster, heartbeat.node)
            streams.setdefault(key, NodeStreams()).record(heartbeat.source, heartbeat.event_time_ns)
    return watch, streams


def test_a_node_without_lines_since_long_before_the_last_step_is_mute() -> None:
    assert mute_nodes(*watched([*steps(240), *of_nodes({"n3": 600})])) == {"n3"}


def test_a_node_whose_lines_end_with_the_job_s_last_step_is_not_mute() -> None:
    assert mute_nodes(*watched([*steps(240), *of_nodes({"n3": STEPPED_S - 10})])) == frozenset()


def test_a_node_that_reported_steps_is_mute_once_the_job_made_more_without_it() -> None:
    of_all = [step for node in NODES for step in steps(200 if node == "n3" else 240, node=node)]
    assert mute_nodes(*watched([*of_all, *of_nodes({"n3": 1000}, ("worker",))])) == {"n3"}


def test_workers_that_print_only_their_start_are_not_mute() -> None:
    start = [heartbeat for node in NODES for heartbeat in alive_every("worker", node, 0, 90)]
    assert mute_nodes(*watched([*steps(240), *start])) == frozenset()


def test_a_node_without_kernel_lines_is_mute_although_its_workers_printed_only_their_start() -> None:
    start = [heartbeat for node in NODES for heartbeat in alive_every("worker", node, 0, 20)]
    assert mute_nodes(*watched([*steps(240), *start, *of_nodes({"n3": 600}, ("kernel",))])) == {"n3"}


@pytest.mark.parametrize(("until_s", "is_mute"), [(600, True), (1050, False)])
def test_few_lines_are_enough_where_both_streams_pause_for_longer_than_ever(until_s: int, is_mute: bool) -> None:
    workers = alive_every("worker", "n3", 0, until_s, every_s=300)
    kernel = alive_every("kernel", "n3", 0, until_s, every_s=150)
    assert (mute_nodes(*watched([*steps(240), *workers, *kernel])) == {"n3"}) is is_mute


@pytest.fixture
def engine() -> Engine:
    return Engine(the_rules())


def test_a_hang_is_not_blamed_on_the_node_whose_shipper_had_died(engine: Engine) -> None:
    (found,) = run(engine, [*steps(240), *of_nodes({"n3": 600})], STEPPED_S + 600)
    assert (found.verdict, found.root_cause.node) == ("hung", "")
    assert [(verdict, node) for verdict, node, _, _ in verdicts(engine)] == [("shipper-silent", "n3"), ("hung", "")]


def test_a_node_that_falls_silent_at_the_last_step_is_dead_although_another_is_mute(engine: Engine) -> None:
    (found,) = run(engine, [*steps(240), *of_nodes({"n2": 600, "n3": STEPPED_S - 10})], STEPPED_S + 600)
    assert (found.verdict, found.root_cause.node) == ("node-dead", "n3")


def test_a_controller_s_lines_place_no_job_on_its_host() -> None:
    watch, _ = watched([*steps(1), Alive(at(3), "default", "A", "ctl1", source="scheduler")])
    assert watch.nodes == {"n1"}
