"""Lines that begin with a clock without a date: that of the lines before them."""

from __future__ import annotations

import pytest

from epicenter.ingest.parse.times import time_of_clock
from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from tests.support.logs import a_scanner, at, batch

HOUR_S = 3600
NEAR_NS = at(0)
"""2026-03-02 09:00:00 UTC."""


@pytest.mark.parametrize(
    ("line", "near_s", "expected"),
    [
        pytest.param("09:31:07 [INFO] step 4", 0, "2026-03-02T09:31:07", id="later"),
        pytest.param("[09:31:07,250] step 4", 0, "2026-03-02T09:31:07", id="in-brackets"),
        pytest.param("08:58:00 step 4", 0, "2026-03-02T08:58:00", id="a-little-earlier"),
        pytest.param("00:10:00 step 4", 14.9 * HOUR_S, "2026-03-03T00:10:00", id="past-midnight"),
        pytest.param("13:00:00 step 4", 0, "", id="another-zone"),
        pytest.param("09:31 step 4", 0, "", id="no-clock"),
        pytest.param("29:31:07 step 4", 0, "", id="no-hour"),
    ],
)
def test_a_clock_has_the_date_of_the_line_before(line: str, near_s: float, expected: str) -> None:
    found = time_of_clock(line, NEAR_NS + round(near_s * NS_PER_S))
    assert (iso_from_ns(found)[:19] if found else "") == expected


def test_a_clock_in_another_zone_is_read_there() -> None:
    assert time_of_clock("10:31:07 step 4", NEAR_NS, "Europe/Berlin") == time_of_clock("09:31:07 step 4", NEAR_NS)


def test_a_line_before_every_date_has_no_time() -> None:
    assert time_of_clock("09:31:07 step 4", 1) is None


def test_steps_behind_a_clock_have_their_own_times_over_hours() -> None:
    clocks = [f"{9 + number // 6:02d}:{number % 6 * 10:02d}:00" for number in range(60)]
    lines = [f"{clock} [INFO] step {number}/900 loss 2.31 (9.1 s/step)" for number, clock in enumerate(clocks)]
    values = [b"2026-03-02 09:00:00,000 - INFO - begin", *(line.encode() for line in lines)]
    found = a_scanner().scan(batch(values, source="train.log")).heartbeats
    steps = {step.step: step.event_time_ns for step in found if hasattr(step, "step")}
    assert steps == {number: at(600 * number) for number in range(60)}
