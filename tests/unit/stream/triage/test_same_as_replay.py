"""`triage` and `replay` say the same thing: over every kind of fault of the simulator, and over the scenarios."""

from __future__ import annotations

import pytest

from bench.diagnosis import Root, replayed, row_of, triaged
from epicenter.ingest.simulate.faults import KINDS
from tests.scenarios.test_scenarios import HERE, NAMES


@pytest.mark.parametrize("kind", KINDS)
def test_triage_and_replay_name_the_true_cause_of_each_kind_of_fault(kind: str) -> None:
    row = row_of(kind)
    assert row.is_right(row.triage), row
    assert row.is_same, row


@pytest.mark.parametrize("name", NAMES)
def test_triage_names_a_root_that_replay_names_in_each_scenario(name: str) -> None:
    recorded = HERE / name / "input.jsonl"
    by_triage = {Root.of(report.incident) for report in triaged(recorded) if report.incident}
    by_replay = {Root.of(incident) for incident in replayed(recorded)}
    assert by_triage <= by_replay
    assert bool(by_triage) == bool(by_replay)
