"""Which states of jobs wake an open page."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from epicenter.rules.model.ledger import JobEnd, JobPhase, JobState
from epicenter.stream.local.shown_states import ShownStates

STATE = JobState("east", "A", 100, JobPhase.IN_STEP, 90, 0)


@pytest.fixture
def shown() -> ShownStates:
    states = ShownStates()
    assert states.update([STATE])
    return states


def test_a_state_that_lasts_wakes_no_page(shown: ShownStates) -> None:
    assert not shown.update([])
    assert not shown.update([replace(STATE, time_ns=160, since_ns=155)])


@pytest.mark.parametrize(
    "changed", [{"phase": JobPhase.STALLED}, {"behind": (3,)}, {"quiet": (3,)}, {"lost_nodes": ("n1",)}, {"job": "B"}]
)
def test_a_change_of_a_job_or_its_ranks_wakes_a_page_once(shown: ShownStates, changed: dict[str, Any]) -> None:
    assert shown.update([replace(STATE, **changed)])
    assert not shown.update([replace(STATE, **changed)])


def test_every_state_of_a_batch_is_recorded(shown: ShownStates) -> None:
    changed = [replace(STATE, job=job) for job in "BC"]
    assert shown.update(changed)
    assert not shown.update(changed)


def test_an_ended_job_wakes_a_page_when_its_end_is_corrected(shown: ShownStates) -> None:
    for end in (JobEnd.TERMINATED, JobEnd.PREEMPTED):
        assert shown.update([replace(STATE, phase=JobPhase.ENDED, end=end)])
