"""Each kind of window by example: when it fires, when it does not, and the onset it reports."""

from __future__ import annotations

from typing import Any

import pytest

from epicenter.rules.model.signals import Signal
from tests.support.windows import a_window, an_input, detectors, made_of, seconds


def fired(*inputs: Signal, until: float = 0, **when: Any) -> list[tuple[float, float]]:
    return seconds(made_of([a_window(**when)], inputs, until))


def ramp(numbers: list[float], every: float = 10, **more: Any) -> list[Signal]:
    return [an_input(every * place, size=number, **more) for place, number in enumerate(numbers)]


COUNT = {"kind": "count", "of": "a", "at_least": 3, "within": "60s"}


def test_a_count_fires_within_a_sliding_window() -> None:
    assert fired(an_input(0), an_input(30), an_input(60), **COUNT) == [(60, 0)]
    assert fired(an_input(0), an_input(30), an_input(60.001), **COUNT) == []


def test_a_window_is_quiet_for_its_length_after_a_signal_and_begins_anew() -> None:
    inputs = [an_input(10 * number) for number in range(13)]
    assert fired(*inputs, **COUNT) == [(20, 0), (80, 60)]
    assert fired(*inputs, **COUNT, again_after="0s") == [(20, 0), (50, 30), (80, 60), (110, 90)]


def test_groups_are_counted_apart() -> None:
    inputs = [an_input(0), an_input(1), an_input(2, node="n2"), an_input(3, node="n2")]
    assert fired(*inputs, **COUNT, group_by="node") == []
    assert fired(*inputs, **COUNT) == [(2, 0)]


def test_a_signal_is_about_its_group_and_quotes_its_figures() -> None:
    text = "{count} times on {node}, link {link}"
    window = a_window(**COUNT, group_by=["node", "link"], text=text)
    (made,) = made_of([window], [an_input(second, link="eth0") for second in range(3)])
    assert (made.node, made.job, made.rank, made.text) == ("n1", "", None, "3 times on n1, link eth0")
    assert made.fields == {"count": "3", "span_s": "2", "node": "n1", "link": "eth0"}
    assert made.severity == "error"


def test_an_input_without_any_of_the_group_is_left_out() -> None:
    assert fired(*(an_input(second) for second in range(3)), **COUNT, group_by="link") == []


@pytest.mark.parametrize(
    ("where", "fires"),
    [
        ({"state": "down"}, True),
        ({"state": "up"}, False),
        ({"state": ["up", "down"]}, True),
        ({"state": "!= down"}, False),
        ({"count": ">= 4"}, True),
        ({"count": "> 4"}, False),
        ({"count": "< 1,000"}, True),
        ({"state": "< 4"}, False),
        ({"state": "down", "count": "4"}, True),
        ({"absent": "x"}, False),
    ],
)
def test_only_inputs_whose_fields_fit_count(where: dict[str, object], fires: bool) -> None:
    inputs = [an_input(second, state="down", count=4) for second in range(3)]
    assert bool(fired(*inputs, **COUNT, where=where)) == fires


def test_tumbling_windows_do_not_overlap() -> None:
    tumbling = COUNT | {"window": "tumbling"}
    assert fired(an_input(50), an_input(55), an_input(61), **tumbling) == []
    assert fired(an_input(60), an_input(61), an_input(119), **tumbling) == [(119, 60)]
    assert fired(*(an_input(number) for number in range(100)), **tumbling) == [(2, 0), (62, 60)]


def test_a_session_ends_with_a_pause() -> None:
    session = COUNT | {"within": "10m", "window": "session", "gap": "20s"}
    assert fired(an_input(0), an_input(20), an_input(40), **session) == [(40, 0)]
    assert fired(an_input(0), an_input(20), an_input(41), **session) == []
    long = [an_input(20 * number) for number in range(10)]
    again = [an_input(400 + number) for number in range(3)]
    assert fired(*long, *again, **session) == [(40, 0), (402, 400)]


def test_distinct_values_are_counted() -> None:
    distinct = {"kind": "distinct", "of": "a", "field": "node", "at_least": 3, "within": "1m"}
    assert fired(an_input(0), an_input(1, node="n2"), an_input(2), an_input(3, node="n3"), **distinct) == [(3, 1)]
    assert fired(*(an_input(second) for second in range(9)), **distinct) == []


def test_an_ordered_sequence_fires_in_its_order_only() -> None:
    flap = {"kind": "sequence", "of": ["down", "up", "down"], "within": "1m"}
    down, up = "down", "up"
    assert fired(an_input(0, down), an_input(1, up), an_input(2, down), **flap) == [(2, 0)]
    assert fired(an_input(0, down), an_input(1, down), an_input(2, up), **flap) == []
    assert fired(an_input(0, down), an_input(1, up), an_input(61, down), **flap) == []
    assert fired(an_input(0, down), an_input(5, down), an_input(6, up), an_input(9, down), **flap) == [(9, 5)]


def test_an_unordered_sequence_fires_in_any_order() -> None:
    inputs = [an_input(0, "c"), an_input(1, "b"), an_input(2, "a")]
    names = {"of": ["a", "b", "c"], "within": "1m"}
    assert fired(*inputs, kind="sequence", **names) == []
    assert fired(*inputs, kind="sequence", ordered=False, **names) == [(2, 0)]
    assert fired(*inputs[:2], *inputs[:2], kind="sequence", ordered=False, **names) == []


def test_absence_after_an_input_fires_at_the_end_of_its_window() -> None:
    absence = {"kind": "absence", "of": "a", "without": "b", "within": "1m", "group_by": "node"}
    assert fired(an_input(0), until=60, **absence) == [(60, 0)]
    assert fired(an_input(0), until=59, **absence) == []
    assert fired(an_input(0), an_input(60, "b"), until=600, **absence) == []
    assert fired(an_input(0), an_input(30, "b", node="n2"), until=600, **absence) == [(60, 0)]
    assert fired(an_input(0), an_input(30), an_input(61, "b"), until=600, **absence) == [(60, 0)]
    assert fired(an_input(0), an_input(30, "b"), an_input(40), until=600, **absence) == [(100, 40)]


def test_absence_before_an_input_fires_at_that_input() -> None:
    absence = {"kind": "absence", "side": "before", "of": "b", "without": "a", "within": "1m"}
    start = an_input(0, "a")
    assert fired(start, an_input(59, "b"), **absence) == []
    assert fired(start, an_input(61, "b"), **absence) == [(61, 61)]
    assert fired(an_input(61, "b"), **absence) == []  # what came before the beginning is unknown


def test_a_rate_fires_above_its_baseline() -> None:
    rate = {"kind": "rate", "of": "a", "within": "1m", "baseline": 3, "times": 5, "at_least": 4}
    calm = [an_input(60 * minute) for minute in range(10)]
    storm = [an_input(480 + number) for number in range(2, 8)]
    assert fired(*calm, *storm, **rate) == [(485, 480)]
    assert fired(*calm, *storm[:3], **rate) == []
    assert fired(*(an_input(number) for number in range(100)), **rate) == []


def test_a_flat_line_fires_when_inputs_stop() -> None:
    flat = {"kind": "flat-line", "of": "a", "within": "1m", "group_by": "node"}
    assert fired(an_input(0), an_input(60), until=119, **flat) == []
    assert fired(an_input(0), an_input(61), an_input(90), until=200, **flat) == [(60, 0), (150, 90)]
    assert fired(an_input(0), an_input(30), an_input(60), until=600, **flat, at_least=2) == [(90, 60)]


def test_a_tally_reports_its_count_at_its_end() -> None:
    tally = {"kind": "tally", "of": "a", "within": "1m"}
    inputs = [an_input(0), an_input(59), an_input(60), an_input(200)]
    made = made_of([a_window(**tally, text="{count}")], inputs, until=240)
    assert [(signal.text, round(second, 3)) for signal, (second, _) in zip(made, seconds(made), strict=True)] == [
        ("2", 60),
        ("1", 120),
        ("1", 240),
    ]
    assert len(made_of([a_window(**tally, at_least=2)], inputs, until=240)) == 1
    many = [an_input(second / 100) for second in range(3000)]
    assert [signal.fields["count"] for signal in made_of([a_window(**tally)], many, until=60)] == ["3000"]


def test_first_seen_fires_once_for_each_new_value() -> None:
    first = {"kind": "first-seen", "of": "a", "field": "code", "within": "1h"}
    inputs = [an_input(0, code=79), an_input(5, code=79), an_input(9, code=31), an_input(4000, code=79)]
    assert fired(*inputs, **first) == [(0, 0), (9, 9), (4000, 4000)]
    assert fired(*inputs, **first, learn="10s") == [(4000, 4000)]


def test_a_threshold_fires_when_passed_often_enough_in_a_row() -> None:
    hot = {"kind": "threshold", "of": "a", "field": "size", "above": 90, "at_least": 2, "within": "10m"}
    assert fired(*ramp([91, 80, 91, 90]), **hot) == []
    assert fired(*ramp([80, 91, 92]), **hot) == [(20, 10)]
    low = {"kind": "threshold", "of": "a", "field": "size", "below": 5, "within": "10m"}
    assert fired(*ramp([80, 4]), **low) == [(10, 10)]


SLOPE = {"kind": "slope", "of": "a", "field": "size", "by": "10%", "samples": 10, "within": "1h"}


def test_a_slope_is_a_steady_rise_and_neither_a_step_nor_noise() -> None:
    assert fired(*ramp([100 + 1.5 * place for place in range(10)]), **SLOPE) == [(90, 0)]
    assert fired(*ramp([100 + place for place in range(10)]), **SLOPE) == []
    assert fired(*ramp([100.0] * 10 + [150.0] * 10), **SLOPE) == []
    assert fired(*ramp([100.0, 140.0] * 10), **SLOPE) == []
    assert fired(*ramp([300 - 10 * place for place in range(20)]), **SLOPE) == []


def test_a_spike_fires_above_the_usual_value() -> None:
    spike = {"kind": "spike", "of": "a", "field": "size", "by": "20%", "samples": 3, "within": "1h"}
    assert fired(*ramp([100, 101, 99, 121]), **spike) == [(30, 30)]
    assert fired(*ramp([100, 101, 99, 119, 119]), **spike) == []
    drift = spike | {"newest": 3}
    assert fired(*ramp([100, 101, 99, 150, 100, 150]), **drift) == [(50, 30)]
    assert fired(*ramp([100, 101, 99, 150, 100, 100]), **drift) == []


def test_fields_may_be_subtracted_and_have_alternatives() -> None:
    gap = SLOPE | {"field": ["held_mb", "held"], "minus": ["used_mb", "used"]}
    rising = [an_input(10 * n, held=100 + 10 * n, used=50) for n in range(10)]
    other = [an_input(10 * n + 1, held_mb=100, used_mb=50, held=1, used=0) for n in range(10)]
    assert fired(*rising, *other, **gap) == [(90, 0)]
    assert fired(*(an_input(10 * n, held=100 + 10 * n) for n in range(10)), **gap) == []


def test_a_value_that_is_no_number_is_no_sample() -> None:
    hot = {"kind": "threshold", "of": "a", "field": "size", "above": 0, "within": "10m"}
    for text in ("nan", "inf", "1e999", "", "12 GB", "0x10"):
        assert fired(an_input(0, size=text), **hot) == []
    assert fired(an_input(0, size="1,024.5"), **hot) == [(0, 0)]


def test_windows_feed_windows() -> None:
    inner = a_window("test.inner", kind="count", of="a", at_least=2, within="10s", again_after="0s", group_by="node")
    outer = a_window("test.outer", kind="distinct", of="test.inner", field="node", at_least=2, within="1m")
    inputs = [an_input(0), an_input(1), an_input(30, node="n2"), an_input(31, node="n2")]
    made = made_of([outer, inner], inputs)
    assert [signal.rule for signal in made] == ["test.inner", "test.inner", "test.outer"]
    assert seconds(made)[-1] == (31, 0)


def test_late_evidence_completes_a_window_and_copies_change_nothing() -> None:
    watching = detectors(a_window(**COUNT))
    first, second, third = an_input(0), an_input(10), an_input(20)
    assert (
        watching.on_signal(first)
        == watching.on_signal(third)
        == watching.on_signal(first)
        == watching.on_signal(third)
        == []
    )
    assert seconds(watching.on_signal(second)) == [(20, 0)]
    assert [watching.on_signal(signal) for signal in (first, second, third)] == [[], [], []]


def test_the_group_that_is_silent_for_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epicenter.rules.detect.detectors.MAX_KEPT_SERIES", 2)
    watching = detectors(a_window(**COUNT, group_by="node"))
    for second, node in enumerate(["n1", "n2", "n1", "n3", "n2", "n1"]):
        assert watching.on_signal(an_input(second, node=node)) == []
    assert watching.evicted == 3
