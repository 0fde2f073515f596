"""Times that no line says are not shown."""

from __future__ import annotations

from epicenter.rules.model.times import is_known, iso_from_ns, known_iso, order_ns
from tests.support.logs import START_NS


def test_a_place_in_the_order_of_lines_is_no_time() -> None:
    assert order_ns(1) < order_ns(2)
    assert (is_known(order_ns(10**9)), known_iso(iso_from_ns(order_ns(10**9)))) == (False, "")


def test_a_time_is_shown_as_it_is() -> None:
    assert (is_known(START_NS), known_iso(iso_from_ns(START_NS))) == (True, iso_from_ns(START_NS))
