"""How far a confidence is a probability: the Brier score, the reliability table, and its diagram. Pure."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from statistics import fmean
from typing import Final, NamedTuple

Answer = tuple[float, bool]
"""A confidence, and whether the answer was right."""

BANDS: Final = 10
_SIDE_PX, _LEFT_PX, _TOP_PX, _BOTTOM_PX, _RIGHT_PX = 400, 60, 16, 48, 16
_MAX_RADIUS_PX: Final = 14.0


class Band(NamedTuple):
    """The answers with a confidence from `low` to below `high`: their mean confidence, and the share that was right."""

    low: float
    high: float
    answers: int
    mean: float
    right: float

    @property
    def unsure(self) -> float:
        """The standard error of `right`, with one right and one wrong answer more, so that it is never 0."""
        share = (self.right * self.answers + 1) / (self.answers + 2)
        return sqrt(share * (1 - share) / self.answers)


def brier(answers: Iterable[Answer]) -> float | None:
    """The mean squared distance of confidence and truth: 0 is perfect, 0.25 is a coin; None without answers."""
    errors = [(confidence - is_right) ** 2 for confidence, is_right in answers]
    return fmean(errors) if errors else None


def bands(answers: Iterable[Answer]) -> list[Band]:
    """The bands of equal width that have answers, lowest first; 1 belongs to the highest."""
    by_band: dict[int, list[Answer]] = {}
    for answer in answers:
        by_band.setdefault(min(BANDS - 1, int(answer[0] * BANDS + 1e-9)), []).append(answer)
    return [_band(number, found) for number, found in sorted(by_band.items())]


def _band(number: int, found: Sequence[Answer]) -> Band:
    mean, right = (fmean(values) for values in zip(*found, strict=True))
    return Band(number / BANDS, (number + 1) / BANDS, len(found), mean, right)


def miscalibration(found: Sequence[Band]) -> float | None:
    """How far confidence and the share of right answers are apart, as a mean over all answers; None without any."""
    total = sum(band.answers for band in found)
    return sum(band.answers * abs(band.mean - band.right) for band in found) / total if total else None


def table(found: Sequence[Band]) -> Iterator[str]:
    """The bands as lines of text."""
    yield f"{'confidence':<14}{'answers':>9}{'mean':>8}{'right':>8}"
    for band in found:
        yield f"{band.low:.1f} to {band.high:.1f}    {band.answers:>9}{band.mean:>8.2f}{band.right:>8.2f}"


def summary(answers: Sequence[Answer]) -> Iterator[str]:
    """The table with the Brier score, as lines of text."""
    found, score = bands(answers), brier(answers)
    distance = miscalibration(found)
    yield from table(found)
    if score is not None and distance is not None:
        yield f"Brier score {score:.3f}; mean distance from the share of right answers {distance:.3f}"


def svg(found: Sequence[Band]) -> str:
    """The reliability diagram: a dot for each band, its area by the number of answers; on the line it is calibrated."""
    width, height = _LEFT_PX + _SIDE_PX + _RIGHT_PX, _TOP_PX + _SIDE_PX + _BOTTOM_PX
    size = {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": "sans-serif", **size})
    ET.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "white"})
    _draw_axes(root)
    most = max((band.answers for band in found), default=1)
    for band in found:
        _draw_band(root, band, _MAX_RADIUS_PX * sqrt(band.answers / most))
    return ET.tostring(root, "unicode") + "\n"


def _draw_axes(root: ET.Element) -> None:
    for number in range(0, BANDS + 1, 2):
        share = number / BANDS
        _draw_line(root, (share, 0), (share, 1), "#ddd")
        _draw_line(root, (0, share), (1, share), "#ddd")
        _draw_text(root, _x(share), _y(0) + 18, f"{share:.1f}")
        _draw_text(root, _LEFT_PX - 18, _y(share) + 4, f"{share:.1f}")
    _draw_line(root, (0, 0), (1, 1), "#888")
    _draw_text(root, _x(0.5), _y(0) + 38, "confidence")
    label = _draw_text(root, 0, 0, "share of right answers")
    label.set("transform", f"translate(14 {_y(0.5):.0f}) rotate(-90)")


def _draw_band(root: ET.Element, band: Band, radius_px: float) -> None:
    low, high = max(0.0, band.right - band.unsure), min(1.0, band.right + band.unsure)
    _draw_line(root, (band.mean, low), (band.mean, high), "#0b57d0")
    place = {"cx": f"{_x(band.mean):.1f}", "cy": f"{_y(band.right):.1f}", "r": f"{max(3.0, radius_px):.1f}"}
    dot = ET.SubElement(root, "circle", {**place, "fill": "#0b57d0", "fill-opacity": "0.6"})
    ET.SubElement(
        dot, "title"
    ).text = f"{band.answers} answers, mean confidence {band.mean:.2f}, {band.right:.2f} of them right"


def _draw_line(root: ET.Element, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    ends = {"x1": _x(start[0]), "y1": _y(start[1]), "x2": _x(end[0]), "y2": _y(end[1])}
    ET.SubElement(root, "line", {**{name: f"{value:.1f}" for name, value in ends.items()}, "stroke": colour})


def _draw_text(root: ET.Element, x: float, y: float, text: str) -> ET.Element:
    place = {"x": f"{x:.0f}", "y": f"{y:.0f}", "font-size": "12", "text-anchor": "middle"}
    element = ET.SubElement(root, "text", place)
    element.text = text
    return element


def _x(share: float) -> float:
    return _LEFT_PX + share * _SIDE_PX


def _y(share: float) -> float:
    return _TOP_PX + (1 - share) * _SIDE_PX
