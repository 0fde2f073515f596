"""Bundles mean exactly their steps."""

from __future__ import annotations

import msgspec
import pytest

from epicenter.rules.event_time.ordering import bundle_order, count_before, heartbeat_order
from epicenter.rules.model.heartbeats import Alive, Heartbeat, Step
from epicenter.rules.model.step_bundle import StepBundle, bundled
from tests.support.logs import at


def a_step(second: float, rank: int | None, step: int = 7, node: str = "n1", job: str = "A") -> Step:
    return Step(at(second), "default", job, node, step, rank, 1000 + (rank or 0))


RANKS = [a_step(1.002, 1), a_step(1.001, 3), a_step(1.001, 2), a_step(1.0, None)]


def test_a_bundle_has_the_steps_in_the_order_in_which_they_are_processed() -> None:
    ((bundle,), others) = bundled(RANKS)
    assert list(bundle.steps()) == sorted(RANKS, key=heartbeat_order)
    assert [bundle_order(bundle, number) for number in range(4)] == sorted(map(heartbeat_order, RANKS))
    assert others == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(a_step(1, 4, step=8), id="another-step"),
        pytest.param(a_step(1, 4, node="n2"), id="another-node"),
        pytest.param(a_step(1, 4, job="B"), id="another-job"),
        pytest.param(a_step(61, 1), id="the-same-rank-again"),
        pytest.param(a_step(1, 4, job=""), id="no-job"),
        pytest.param(a_step(1, 4, node=""), id="no-node"),
        pytest.param(Alive(at(1), "default", "A", "n1"), id="a-sign-of-life"),
    ],
)
def test_what_does_not_fit_stays_alone(other: Heartbeat) -> None:
    bundles, others = bundled([*RANKS, other])
    assert (len(bundles), others) == (1, [other])


def test_a_bundle_is_cut_between_steps_of_the_same_time() -> None:
    bundle = StepBundle.of(RANKS)
    ordered = list(bundle.steps())
    assert [count_before(bundle, heartbeat_order(step)) for step in ordered] == [1, 2, 3, 4]
    assert [count_before(bundle, (at(second),)) for second in (1, 1.001, 1.0015, 2)] == [0, 1, 3, 4]
    assert list(bundle.since(1).steps()) == ordered[1:]


def test_a_bundle_reads_as_it_was_written() -> None:
    bundle = StepBundle.of(RANKS)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(bundle), type=StepBundle) == bundle
    assert list(StepBundle.alone(RANKS[0]).steps()) == RANKS[:1]
