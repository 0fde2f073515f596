"""Clock skew is detected from the steps that all nodes complete at once."""

from __future__ import annotations

from epicenter.rules.event_time.skew import MAX_KEPT_JOBS, MAX_KEPT_NODES, NEEDED, ClockSkew
from epicenter.rules.model.times import NS_PER_S


def with_steps(skew: ClockSkew, ahead_s: dict[str, float], steps: int) -> ClockSkew:
    for step in range(steps):
        for node, seconds in ahead_s.items():
            skew.record_step("c/A", f"c/{node}", step, round((5 * step + seconds) * NS_PER_S))
    return skew


def test_a_clock_that_is_ahead_is_detected_after_a_few_steps() -> None:
    skew = with_steps(ClockSkew(), {"n1": 0, "n2": 1.5, "n3": 0.01}, NEEDED + 1)
    assert skew.skew_ns("c/n2") == round(1.49 * NS_PER_S)
    assert skew.skew_ns("c/n3") == 0


def test_skew_is_unknown_after_fewer_steps_or_with_a_single_node() -> None:
    assert with_steps(ClockSkew(), {"n1": 0, "n2": 1.5}, NEEDED).skew_ns("c/n2") is None
    assert with_steps(ClockSkew(), {"n1": 3}, 50).skew_ns("c/n1") is None


def test_one_slow_step_of_a_node_is_no_skew() -> None:
    skew = with_steps(ClockSkew(), {"n1": 0, "n2": 0}, 10)
    skew.record_step("c/A", "c/n1", 11, 60 * NS_PER_S)
    skew.record_step("c/A", "c/n2", 11, 90 * NS_PER_S)
    skew.record_step("c/A", "c/n1", 12, 95 * NS_PER_S)
    assert skew.skew_ns("c/n2") == 0


def test_tracked_jobs_and_nodes_are_bounded() -> None:
    skew = ClockSkew()
    for number in range(MAX_KEPT_JOBS + 5):
        for step in range(2):
            for node in range(5):
                skew.record_step(f"c/{number}", f"c/{number}-{node}", step, step)
    assert (len(skew.rounds), len(skew.differences_ns)) == (MAX_KEPT_JOBS, MAX_KEPT_NODES)
