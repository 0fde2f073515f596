"""A checkpoint before its turn ends a job that prints no end; nothing else that stops a job is taken for that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.heartbeats import CheckpointSaved, Heartbeat
from tests.support.heartbeats import PACE_S, run, steps, verdicts
from tests.support.logs import at, the_rules
from tests.support.signals import a_match

EVEN = (20, 40, 60)


def saves(*numbers: int) -> list[Heartbeat]:
    """Each checkpoint half a step after its own step."""
    return [CheckpointSaved(at(PACE_S * (step + 0.5)), "default", "A", "n1", step) for step in numbers]


@pytest.mark.parametrize(
    ("saved", "upto", "expected"),
    [
        pytest.param((*EVEN, 74), 74, "finished", id="before-its-turn"),
        pytest.param((*EVEN, 74, 74), 74, "finished", id="reported-by-two-ranks"),
        pytest.param((*EVEN, 80), 80, "hung", id="in-its-turn"),
        pytest.param((*EVEN, 74), 90, "hung", id="steps-after-it"),
        pytest.param((20, 40, 49), 49, "hung", id="distance-not-yet-known"),
        pytest.param((20, 30, 60, 74), 74, "hung", id="uneven-distances"),
        pytest.param(EVEN, 74, "hung", id="none"),
    ],
)
def test_only_a_checkpoint_before_its_turn_ends_a_job(saved: Sequence[int], upto: int, expected: str) -> None:
    engine = Engine(the_rules())
    found = run(engine, [*steps(upto), *saves(*saved)], PACE_S * upto + 2000)
    assert [verdict for verdict, *_ in verdicts(engine)] == [expected]
    assert [incident.failure_class for incident in found] == ["hang"] * (expected == "hung")


def test_a_job_whose_node_broke_at_its_last_checkpoint_has_not_finished() -> None:
    engine = Engine(the_rules())
    engine.add([a_match("nvidia.xid_79", PACE_S * 74 + 1, "n1", "")], [])
    run(engine, [*steps(74), *saves(*EVEN, 74)], PACE_S * 74 + 2000)
    assert "finished" not in [verdict for verdict, *_ in verdicts(engine)]


def test_a_restarted_job_learns_the_distance_of_its_checkpoints_anew() -> None:
    engine, again_s = Engine(the_rules()), PACE_S * 74 + 400
    resumed = [*steps(79, first=61, start_s=again_s)]
    saved = CheckpointSaved(resumed[-1].event_time_ns + 1, "default", "A", "n1", 79)
    run(engine, [*steps(74), *saves(*EVEN), *resumed, saved], again_s + 3000)
    assert [verdict for verdict, *_ in verdicts(engine)][-1] == "hung"
