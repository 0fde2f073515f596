"""The demo's verdict on itself: what it found is the truth, or it says so."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from epicenter.ingest.simulate import KINDS, truth_of
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S, iso_ns
from epicenter.stream.cli.demo import compare, demo_scenario
from tests.unit.sinks.clickhouse.test_rows import an_incident

NOW_NS = 1_772_442_000 * NS_PER_S


def found(failure_class: str, node: str) -> list[Incident]:
    incident = an_incident()
    return [replace(incident, root_cause=replace(incident.root_cause, failure_class=failure_class, node=node))]


@pytest.mark.parametrize(
    ("fault", "incidents", "is_right"),
    [
        ("gpu-off-bus", found("xid-79", "node0007"), True),
        ("gpu-off-bus", found("xid-79", "node0001"), False),
        ("gpu-off-bus", found("hang", "node0007"), False),
        ("gpu-off-bus", [], False),
        ("gpu-off-bus", found("hang", "node0001") + found("xid-79", "node0007"), True),
        ("kernel-panic", found("kernel-oops-bug", "node0007"), True),
        ("time-limit", found("slurm-time-limit", "node0002"), True),
        ("never-started", found("rendezvous-timeout", ""), True),
        ("never-started", found("rendezvous-timeout", "node0001"), False),
        ("job-finished", [], True),
        ("job-finished", found("hang", ""), False),
        ("none", [], True),
        ("none", found("hang", ""), False),
    ],
)
def test_fault_counts_as_found_when_class_and_node_are_right(
    fault: str, incidents: list[Incident], is_right: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(incidents, demo_scenario(16, fault, NOW_NS), is_full=False) is is_right
    err = capsys.readouterr().err
    assert err.startswith("truth: ")
    assert ("NOT FOUND" in err or "WRONG" in err) is not is_right


@pytest.mark.parametrize("fault", ["none", *KINDS])
def test_simulated_time_ends_before_the_clock(fault: str) -> None:
    scenario: Any = demo_scenario(16, fault, NOW_NS)
    assert NOW_NS - 60 * NS_PER_S < iso_ns(truth_of(scenario).end) < NOW_NS
