"""When the soak calls memory flat."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from bench.soak import Sample, plot, verdicts


def samples(memory_mb: Callable[[float], float]) -> list[Sample]:
    """An hour of samples, with the memory only."""
    return [Sample(minute, memory_mb(minute), 1_000.0, 40.0, 900.0, 400_000.0) for minute in range(60)]


@pytest.mark.parametrize(
    ("memory_mb", "is_flat"),
    [
        (lambda minute: 200.0, True),
        (lambda minute: min(200.0, 100 + 10 * minute), True),
        (lambda minute: 200 + 5 * math.sin(minute), True),
        (lambda minute: 200 - minute, True),
        (lambda minute: 200 + minute, False),
    ],
    ids=["still", "warms-up", "swings", "falls", "leaks"],
)
def test_memory_may_settle_and_swing_but_not_grow(memory_mb: Callable[[float], float], is_flat: bool) -> None:
    found = verdicts(samples(memory_mb))
    assert found["memory_mb"]["is_flat"] is is_flat
    assert all(verdict["is_flat"] for name, verdict in found.items() if name != "memory_mb")


def test_the_plot_shows_every_figure() -> None:
    root = ET.fromstring(plot(samples(lambda minute: 200.0)))
    assert len(root.findall("{*}polyline")) == len(Sample._fields) - 1
