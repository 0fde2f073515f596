"""When time goes on, and who holds it."""

from __future__ import annotations

from rules.watermark import Watermark


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


def test_a_batch_without_times_says_nothing() -> None:
    watermark = Watermark(5)
    watermark.observe("a", None)
    assert watermark.newest_ns_by_source == {}


def test_goes_on_in_silence_at_its_pace() -> None:
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
