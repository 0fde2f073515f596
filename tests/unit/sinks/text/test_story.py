"""The sections of an incident's page and message."""

from __future__ import annotations

import msgspec

from epicenter.rules.model.incident import Incident, NotKnown
from epicenter.sinks.text.story import Grid, story_of
from tests.support.signals import a_signal
from tests.unit.rules.report.test_evidence import an_incident


def others(incident: Incident) -> list[tuple[str, ...]]:
    sections = {section.title: section for section in story_of(incident).sections}
    (grid,) = [block for block in sections["Other candidates and missing evidence"].blocks if isinstance(block, Grid)]
    return list(grid.rows)


def test_not_known_is_the_last_of_the_other_candidates() -> None:
    found = NotKnown(0.23, "", "n1", ("the kernel log of n1", "the logs of n2 after they stopped"))
    incident = msgspec.structs.replace(an_incident([a_signal("oom-gpu", 0, "n1", "A", role="root")]), not_known=found)
    assert others(incident) == [
        (
            "not known: another cause on n1",
            "23%",
            "what would settle it: the kernel log of n1; the logs of n2 after they stopped",
        )
    ]
