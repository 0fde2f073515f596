"""Brier score, reliability table and diagram, by hand-made answers."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from bench.reliability import Band, bands, brier, miscalibration, summary, svg

NINE_OF_TEN = [(0.9, True)] * 9 + [(0.9, False)]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("answers", "score"),
    [([(1.0, True)], 0.0), ([(1.0, False)], 1.0), ([(0.5, True), (0.5, False)], 0.25), (NINE_OF_TEN, 0.09)],
)
def test_brier_score_is_the_mean_squared_distance(answers: list[tuple[float, bool]], score: float) -> None:
    assert brier(answers) == pytest.approx(score)


def test_brier_score_of_no_answers_is_unknown() -> None:
    assert brier([]) is None
    assert miscalibration(bands([])) is None


def test_bands_are_tenths_and_certainty_belongs_to_the_highest() -> None:
    found = bands([(0.0, False), (0.3, True), (0.35, False), (0.9, True), (1.0, True)])
    assert [(band.low, band.answers, band.right) for band in found] == [(0.0, 1, 0.0), (0.3, 2, 0.5), (0.9, 2, 1.0)]


def test_calibrated_answers_have_no_distance_and_boasts_have_it() -> None:
    assert miscalibration(bands(NINE_OF_TEN)) == pytest.approx(0.0)
    assert miscalibration(bands([(0.95, True), (0.95, False)])) == pytest.approx(0.45)


def test_summary_has_a_line_for_each_band_and_the_score() -> None:
    assert list(summary(NINE_OF_TEN))[1:] == [
        "0.9 to 1.0           10    0.90    0.90",
        "Brier score 0.090; mean distance from the share of right answers 0.000",
    ]


def test_diagram_has_a_dot_for_each_band_at_its_share_of_right_answers() -> None:
    found = [Band(0.5, 0.6, 4, 0.5, 0.5), Band(0.9, 1.0, 100, 1.0, 1.0)]
    dots = ET.fromstring(svg(found)).findall(f"{SVG}circle")
    assert [(dot.get("cx"), dot.get("cy")) for dot in dots] == [("260.0", "216.0"), ("460.0", "16.0")]
    assert float(dots[0].get("r", 0)) < float(dots[1].get("r", 0))


def test_diagram_without_answers_has_its_axes_alone() -> None:
    drawn = ET.fromstring(svg([]))
    assert not drawn.findall(f"{SVG}circle")
    assert drawn.findall(f"{SVG}line")
