"""The work for a signal has a bound, whatever the shape of the input."""

from __future__ import annotations

import pytest

from bench.correlate_shapes import BOUNDED, Shape, calls_per_signal

FIRST_USE = 5
ALLOWED_GROWTH = 1.1


@pytest.mark.parametrize("shape", BOUNDED)
def test_calls_of_a_signal_do_not_grow_with_the_number_of_incidents(shape: Shape) -> None:
    _, few, many = (calls_per_signal(shape, count) for count in (FIRST_USE, 40, 160))
    assert many <= ALLOWED_GROWTH * few
