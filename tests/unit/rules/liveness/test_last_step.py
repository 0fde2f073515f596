"""A job that is quiet after the last step by its own count is complete, not hung."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import EVALUATION, Heartbeat, LastStep, PhaseBegan
from tests.support.heartbeats import PACE_S, run, steps, verdicts
from tests.support.logs import at, the_rules
from tests.support.signals import a_match


def counted(last: int, at_step: int) -> Heartbeat:
    """The line of a step counts one as the last."""
    return LastStep(at(PACE_S * at_step), "default", "A", "n1", last)


@pytest.mark.parametrize(
    ("more", "upto", "expected"),
    [
        pytest.param([counted(74, 74)], 74, "finished", id="its-last"),
        pytest.param([counted(74, 74)], 90, "hung", id="steps-after-it"),
        pytest.param([counted(50, 74)], 74, "hung", id="that-of-an-evaluation"),
        pytest.param([], 74, "hung", id="not-counted"),
        pytest.param(
            [counted(74, 74), PhaseBegan(at(PACE_S * 74 + 1), "default", "A", "n1", EVALUATION)],
            74,
            "hung",
            id="evaluates-without-an-end",
        ),
    ],
)
def test_a_job_is_complete_after_its_last_step(more: Sequence[Heartbeat], upto: int, expected: str) -> None:
    engine = Engine(the_rules())
    found = run(engine, [*steps(upto), *more], PACE_S * upto + 3000)
    assert [verdict for verdict, *_ in verdicts(engine)] == [expected]
    assert [incident.failure_class for incident in found] == ["hang"] * (expected == "hung")


def test_a_job_whose_node_broke_at_its_last_step_is_not_complete() -> None:
    engine = Engine(the_rules())
    engine.add([a_match("nvidia.xid_79", PACE_S * 74 + 1, "n1", "")], [])
    run(engine, [*steps(74), counted(74, 74)], PACE_S * 74 + 2000)
    assert "finished" not in [verdict for verdict, *_ in verdicts(engine)]


def test_the_end_of_an_epoch_is_not_that_of_the_job() -> None:
    engine, again_s = Engine(the_rules()), PACE_S * 74 + 200
    second = steps(74, first=0, start_s=again_s)
    ends = [counted(74, 74), LastStep(second[-1].event_time_ns, "default", "A", "n1", 74)]
    run(engine, [*steps(74), *second, *ends], again_s + PACE_S * 74 + 3000)
    assert [verdict for verdict, *_ in verdicts(engine)][-1] == "hung"
