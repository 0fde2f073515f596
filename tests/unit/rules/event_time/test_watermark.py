"""When the watermark advances, and what holds it back."""

from __future__ import annotations

from epicenter.rules.event_time.watermark import MIN_WAIT_NS, Watermark
from epicenter.rules.model.times import NS_PER_S


def test_begins_before_everything() -> None:
    assert Watermark(5).hold(["a"]) == 0


def test_stays_behind_the_newest_event_by_the_lateness() -> None:
    watermark = Watermark(5)
    watermark.observe("a", 100)
    assert watermark.hold(["a"]) == 95


def test_waits_for_the_slowest_of_those_that_lag() -> None:
    watermark = Watermark(5)
    watermark.observe("fast", 1000)
    watermark.observe("slow", 100)
    assert watermark.hold(["fast", "slow"]) == 95
    assert watermark.hold(["fast"]) == 995


def test_a_source_that_was_never_read_holds_time() -> None:
    watermark = Watermark(5)
    watermark.observe("a", 1000)
    assert watermark.hold(["a", "unread"]) == 0


def test_never_goes_back() -> None:
    watermark = Watermark(5)
    watermark.observe("a", 1000)
    watermark.hold(["a"])
    watermark.observe("a", 10)
    watermark.observe("late", 10)
    assert watermark.hold(["late"]) == 995
    assert watermark.idle(0, at_pace=True) == 995


def test_a_batch_without_times_does_not_advance_it() -> None:
    watermark = Watermark(5)
    watermark.observe("a", None)
    assert watermark.newest_ns_by_source == {}


def test_advances_without_lines_at_the_pace_of_the_clock() -> None:
    watermark = Watermark(5)
    watermark.observe("a", 1000)
    assert watermark.idle(0, at_pace=True) == 995
    assert watermark.idle(3, at_pace=True) == 998
    assert watermark.idle(500, at_pace=True) == 1495


def test_stops_at_the_newest_record_of_a_recording() -> None:
    watermark = Watermark(5)
    watermark.observe("a", 1000)
    assert watermark.idle(3, at_pace=False) == 998
    assert watermark.idle(500, at_pace=False) == 1000


MINUTE_NS = 60 * NS_PER_S
MAX_NS = 5 * NS_PER_S


def live(minutes: int, behind_ns: int, then_ns: int = 0) -> Watermark:
    """After this many minutes with lines this far behind the newest; `then_ns` is the delay in the last minute."""
    watermark = Watermark(MAX_NS, is_live=True)
    for minute in range(1, minutes + 1):
        watermark.observe("a", minute * MINUTE_NS)
        watermark.hold(["a"])
        watermark.learn([minute * MINUTE_NS - behind_ns])
    watermark.learn([minutes * MINUTE_NS - then_ns])
    return watermark


def test_waits_for_the_whole_lateness_until_it_has_learnt() -> None:
    assert live(2, NS_PER_S // 2).wait_ns == MAX_NS
    assert live(3, NS_PER_S // 2).wait_ns == NS_PER_S * 3 // 4


def test_waits_within_its_bounds() -> None:
    assert live(3, 4 * NS_PER_S).wait_ns == MAX_NS
    assert live(3, 0).wait_ns == live(3, -NS_PER_S).wait_ns == MIN_WAIT_NS


def test_a_late_line_makes_it_wait_for_ten_minutes() -> None:
    watermark = live(3, 0, then_ns=2 * NS_PER_S)
    for minute in range(4, 14):
        assert watermark.wait_ns == 3 * NS_PER_S
        watermark.observe("a", minute * MINUTE_NS)
        watermark.hold(["a"])
        watermark.learn([minute * MINUTE_NS])
    assert watermark.wait_ns == MIN_WAIT_NS


def test_a_line_too_late_to_wait_for_extends_no_wait() -> None:
    assert live(3, 0, then_ns=MAX_NS + 1).wait_ns == MIN_WAIT_NS
    assert live(3, MAX_NS + 1).wait_ns == MAX_NS  # nothing was learnt


def test_a_recording_gets_the_whole_lateness() -> None:
    watermark = live(3, 0)
    watermark.is_live = False
    assert watermark.wait_ns == MAX_NS


def test_minutes_without_lines_do_not_change_the_lateness() -> None:
    watermark = live(3, 2 * NS_PER_S)
    watermark.idle(60 * MINUTE_NS, at_pace=True)
    assert watermark.wait_ns == 3 * NS_PER_S
