"""Clock skew is detected from the steps that all nodes complete at once."""

from __future__ import annotations

import pytest

from epicenter.rules.event_time.skew import MAX_KEPT_JOBS, MAX_KEPT_NODES, NEEDED, ClockSkew
from epicenter.rules.model.times import NS_PER_S


def with_steps(skew: ClockSkew, ahead_s: dict[str, float], steps: int, first: int = 0) -> ClockSkew:
    for step in range(first, first + steps):
        for node, seconds in ahead_s.items():
            logged_ns = round((5 * step + seconds) * NS_PER_S)
            behind_ns = min(0, skew.ahead_ns.get(f"c/{node}", 0))
            skew.record_step("c/A", f"c/{node}", step, logged_ns - behind_ns)
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


def with_banners(times_s: dict[str, float], banner: str = "Init COMPLETE") -> ClockSkew:
    skew = ClockSkew()
    for node, second in times_s.items():
        skew.record_banner("c/A", banner, f"c/{node}", round(second * NS_PER_S))
    return skew


@pytest.mark.parametrize("nodes", [4, 16, 128, 512])
def test_a_clock_that_is_ahead_is_known_from_a_common_banner(nodes: int) -> None:
    times_s = {f"n{number}": 100 + (30 if number == 1 else number % 3 * 0.4) for number in range(nodes)}
    skews_ns = with_banners(times_s).skews_of_job_ns("c/A")
    assert skews_ns.pop("c/n1") == pytest.approx(30 * NS_PER_S, abs=NS_PER_S)
    assert set(skews_ns.values()) == {0}


@pytest.mark.parametrize(
    "times_s",
    [
        pytest.param({"n1": 100, "n2": 130}, id="of-two-nodes"),
        pytest.param({"n1": 100, "n2": 130, "n3": 160, "n4": 190}, id="when-they-come-one-by-one"),
    ],
)
def test_no_clock_is_known_to_be_ahead_without_nodes_that_agree(times_s: dict[str, float]) -> None:
    assert with_banners(times_s).skews_of_job_ns("c/A") == {}


def test_a_banner_of_a_later_start_is_not_compared_with_the_first() -> None:
    skew = with_banners({"n1": 100, "n2": 100, "n3": 100})
    skew.record_banner("c/A", "Init COMPLETE", "c/n1", 4000 * NS_PER_S)
    assert skew.skews_of_job_ns("c/A") == {}


def test_different_banners_are_not_compared() -> None:
    skew = with_banners({"n1": 100, "n2": 100, "n3": 100}, "Rendezvous complete")
    skew.record_banner("c/A", "Init COMPLETE", "c/n4", 140 * NS_PER_S)
    assert skew.skews_of_job_ns("c/A") == {"c/n1": 0, "c/n2": 0, "c/n3": 0}


def test_steps_show_a_skew_better_than_banners() -> None:
    skew = with_banners({"n1": 100, "n2": 130, "n3": 100, "n4": 100})
    with_steps(skew, {"n1": 0, "n2": 0.25, "n3": 0, "n4": 0}, NEEDED + 1)
    assert skew.skews_of_job_ns("c/A")["c/n2"] == round(0.25 * NS_PER_S)
    assert skew.ahead_ns == {}


@pytest.mark.parametrize("off_s", [-420, -6, 6, 420])
def test_a_clock_far_off_is_corrected_from_the_first_step_on(off_s: int) -> None:
    skew = with_banners({"n1": 100, "n2": 100, "n3": 100, "n4": 100 + off_s})
    assert skew.ahead_ns == {}
    skew.record_step("c/A", "c/n1", 1, 200 * NS_PER_S)
    assert skew.ahead_ns == {"c/n4": off_s * NS_PER_S}
    assert set(skew.skews_of_job_ns("c/A").values()) == {0}


@pytest.mark.parametrize("off_s", [-7200, -4, 4, 7200])
def test_a_clock_slightly_off_or_a_node_that_started_hours_later_is_not_corrected(off_s: int) -> None:
    skew = with_banners({"n1": 9000, "n2": 9000, "n3": 9000, "n4": 9000 + off_s})
    skew.record_step("c/A", "c/n1", 1, 9100 * NS_PER_S)
    assert skew.ahead_ns == {}


def test_where_banners_differ_the_smaller_skew_is_corrected() -> None:
    skew = with_banners({"n1": 100, "n2": 100, "n3": 100, "n4": 400})
    for node, second in {"n1": 110, "n2": 110, "n3": 110, "n4": 140}.items():
        skew.record_banner("c/A", "Rendezvous complete", f"c/{node}", second * NS_PER_S)
    skew.record_step("c/A", "c/n1", 1, 200 * NS_PER_S)
    assert skew.ahead_ns == {"c/n4": 30 * NS_PER_S}


def test_a_clock_that_is_set_right_is_no_longer_corrected() -> None:
    skew = with_steps(ClockSkew(), {"n1": 0, "n2": 20, "n3": 0}, NEEDED + 1)
    assert skew.ahead_ns == {"c/n2": 20 * NS_PER_S}
    with_steps(skew, {"n1": 0, "n2": 0, "n3": 0}, NEEDED + 1, first=NEEDED + 1)
    assert skew.ahead_ns == {}


def test_a_node_that_reports_late_now_and_then_has_no_other_clock() -> None:
    skew = ClockSkew()
    for step, late_s in enumerate([20, 0, 40, 20, 9, 20, 60, 20]):
        with_steps(skew, {"n1": 0, "n2": late_s, "n3": 0}, 1, first=step)
    assert skew.ahead_ns == {}
