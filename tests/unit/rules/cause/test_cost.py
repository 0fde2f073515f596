"""The cost of an incident."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epicenter.rules.cause.cost import JobLoss, cost_of
from epicenter.rules.model.incident import Cost
from epicenter.rules.model.times import NS_PER_S

HOUR_NS = 3600 * NS_PER_S
LOSS = JobLoss(
    last_step=4100,
    last_step_ns=0,
    until_ns=HOUR_NS,
    step_time_s=36.0,
    gpus=16,
    checkpoint_step=4000,
)


def test_a_job_loses_its_downtime_and_the_steps_it_repeats() -> None:
    assert cost_of([LOSS]) == Cost(steps_lost=100, gpu_hours_lost=32.0, gpus=16, since_checkpoint_step=4000)


def test_repeated_steps_count_rather_than_the_checkpoint() -> None:
    assert cost_of([replace(LOSS, resumed_step=4051)]).steps_lost == 50
    assert cost_of([replace(LOSS, resumed_step=4101)]) == Cost(0, 16.0, 16, 4000)


@pytest.mark.parametrize(
    ("unknown", "expected"),
    [
        ({"last_step": None}, Cost(None, 16.0, 16, 4000)),
        ({"checkpoint_step": None}, Cost(None, 16.0, 16, None)),
        ({"step_time_s": None}, Cost(100, 16.0, 16, 4000)),
        ({"gpus": None}, Cost(100, None, None, 4000)),
        ({"last_step_ns": None}, Cost(100, None, 16, 4000)),
        ({"until_ns": None}, Cost(100, None, 16, 4000)),
    ],
)
def test_an_unknown_cost_is_not_estimated(unknown: dict[str, None], expected: Cost) -> None:
    assert cost_of([replace(LOSS, **unknown)]) == expected


def test_costs_of_several_jobs_add_up_unless_one_is_unknown() -> None:
    assert cost_of([LOSS, LOSS]) == Cost(200, 64.0, 32, None)
    assert cost_of([LOSS, JobLoss()]) == cost_of([]) == Cost()


def test_nothing_is_lost_when_the_checkpoint_or_the_recovery_is_newer() -> None:
    assert cost_of([replace(LOSS, checkpoint_step=4200, until_ns=-HOUR_NS)]) == Cost(0, 0.0, 16, 4200)
