"""Every kind of fault that the simulator knows: what an incident shows must not contradict its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from epicenter.ingest.collect.source import Sources
from epicenter.ingest.simulate import KINDS, Scenario, write_all
from epicenter.rules.model.incident import Incident
from epicenter.rules.report.reason_text import MAX_REASONS
from epicenter.stream.local.pipeline import Pipeline, replay
from tests.support.logs import the_rules

LATENESS_NS = 5_000_000_000


@pytest.fixture(scope="module")
def incidents_by_fault(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[Incident]]:
    found = {}
    for kind in sorted(KINDS):
        folder = tmp_path_factory.mktemp(kind)
        write_all(Scenario(nodes=4, seed=1, faults=(kind,)), folder)
        sources = Sources([str(folder)], host="", follow=False)
        found[kind] = list(replay(Pipeline(the_rules(), "default", LATENESS_NS), sources))
    return found


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_root_is_explained_by_another_candidate(
    kind: str, incidents_by_fault: Mapping[str, Sequence[Incident]]
) -> None:
    for incident in incidents_by_fault[kind]:
        assert incident.root_cause.explained_by is None
        assert not [reason for reason in incident.root_cause.reasons if "explained by" in reason]
        assert 0 < len(incident.root_cause.reasons) <= MAX_REASONS


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_title_names_this_failure_in_one_line(kind: str, incidents_by_fault: Mapping[str, Sequence[Incident]]) -> None:
    for incident in incidents_by_fault[kind]:
        root = incident.root_cause
        place = [root.node, *(f"job {job}" for job in incident.jobs), *incident.nodes]
        assert any(name and name in incident.title for name in place), incident.title
        assert "None" not in incident.title.split()
        assert "\n" not in incident.title


def test_confidence_differs_between_faults(incidents_by_fault: Mapping[str, Sequence[Incident]]) -> None:
    found = {incident.root_cause.confidence for incidents in incidents_by_fault.values() for incident in incidents}
    assert len(found) > 5
