"""A kernel that starts on a node of a running job: the node went down, unless only clocks differ."""

from __future__ import annotations

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.incident import Incident
from tests.support.logs import at, the_rules
from tests.support.signals import a_match, a_step, alive

BOOTED_S = 300


def incidents_after(silence_s: int) -> list[Incident]:
    """A job trains on two nodes; one is silent, then its kernel starts."""
    engine = Engine(the_rules())
    heartbeats = [alive(second, "A", node) for second in range(0, BOOTED_S - silence_s, 5) for node in ("n1", "n2")]
    steps = [a_step(number, 10 * number, "A", "n2") for number in range((BOOTED_S - silence_s) // 10)]
    boot = a_match("machine.boot", BOOTED_S, "n1", fields={"kernel": "6.8.0-60-generic"})
    engine.add([boot], sorted([*heartbeats, *steps], key=lambda heartbeat: heartbeat.event_time_ns))
    return engine.advance(at(BOOTED_S + 30))


def test_a_boot_after_minutes_of_silence_is_the_root_at_the_beginning_of_the_silence() -> None:
    (incident,) = incidents_after(silence_s=180)
    assert (incident.root_cause.failure_class, incident.root_cause.node) == ("node-reboot", "n1")
    assert "logged nothing for" in incident.chain[0].text


@pytest.mark.parametrize("silence_s", [5, 110])
def test_a_boot_within_two_minutes_of_other_lines_may_be_a_matter_of_clocks(silence_s: int) -> None:
    assert incidents_after(silence_s) == []
