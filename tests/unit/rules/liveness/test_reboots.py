"""A node that boots under its job went down at its last sign of life."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import Alive, Heartbeat
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import iso_from_ns
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, a_step, alive


@pytest.fixture
def engine() -> Engine:
    return Engine(the_rules(), lists_joined=True)


def booted(second: float, node: str = "n2") -> Match:
    return a_match("machine.boot", second, node, source="kernel", fields={"kernel": "6.8.0"})


def kernel_lines(until_s: int, node: str = "n2") -> list[Alive]:
    return [Alive(at(second), "default", "", node, source="kernel") for second in range(0, until_s, 20)]


def training(until_s: int, node: str = "n1", first: int = 0, start_s: int = 0) -> list[Heartbeat]:
    steps = [a_step(first + number, start_s + 5 * number, "A", node) for number in range((until_s - start_s) // 5)]
    return [alive(start_s, "A", "n1"), alive(start_s, "A", "n2"), *steps]


def only(incidents: Sequence[Incident]) -> Incident:
    (incident,) = {incident.incident_id: incident for incident in incidents}.values()
    return incident


def test_a_node_that_boots_under_its_job_is_the_cause_of_the_lost_connection(engine: Engine) -> None:
    lost = a_match("nccl.watchdog_timeout", 520, "n1", "A", rank=0, fields={"ran_ms": "120000"})
    engine.add([lost, booted(700)], [*training(400), *kernel_lines(390)])
    incident = only(engine.flush())
    root = incident.root_cause
    assert (root.failure_class, root.node, incident.verdict) == ("node-reboot", "n2", "node-dead")
    assert incident.chain[0].onset == iso_from_ns(at(395))


def test_a_boot_after_the_job_began_again_elsewhere_belongs_to_the_failure_before(engine: Engine) -> None:
    lost = a_match("elastic.first_failure", 410, "n1", "A")
    again = training(700, first=10, start_s=500)[2:]
    engine.add([lost, booted(700)], [*training(400), *again, *kernel_lines(390)])
    incident = only(engine.flush())
    assert (incident.root_cause.failure_class, incident.status) == ("node-reboot", "resolved")
    joined = [joined.signal.failure_class for joined in engine.joined() if joined.incident_id == incident.incident_id]
    assert joined == ["elastic-worker-failed", "node-reboot"]


def test_a_boot_after_the_job_has_ended_is_no_failure(engine: Engine) -> None:
    engine.add([a_match("progress.finished", 400, "n1", "A"), booted(900)], [*training(400), *kernel_lines(600)])
    assert engine.flush() == []


def test_a_boot_of_a_node_without_a_job_is_no_failure(engine: Engine) -> None:
    engine.add([booted(700, "n9")], [*training(400), *kernel_lines(390, "n9")])
    assert "n9" not in {node for incident in engine.flush() for node in incident.nodes}
