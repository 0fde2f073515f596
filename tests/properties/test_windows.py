"""Windows give the signals of a plain loop over all inputs, after restarts too; copies and order change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.engine import Engine
from epicenter.rules.model.records import Match
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from tests.support import plain_windows as plain
from tests.support.logs import at
from tests.support.plain_windows import Event, Holds
from tests.support.signals import a_match, a_step
from tests.support.windows import a_window, an_input, made_of, seconds

LENGTH, GAP, UNTIL = 40, 9, 400
EVENTS = st.tuples(st.integers(0, 300), st.sampled_from("aaabc"), st.integers(1, 6)).map(lambda drawn: Event(*drawn))
ALL = st.lists(EVENTS, max_size=60, unique_by=lambda event: event.second).map(sorted)
FEW = st.lists(EVENTS, max_size=20, unique_by=lambda event: event.second).map(sorted)
SHAPES = st.sampled_from(["sliding", "tumbling", "session"])


def signals_of(events: list[Event], restarts: bool, **when: Any) -> list[tuple[float, float]]:
    inputs = [an_input(event.second, event.name, value=event.value) for event in events]
    return seconds(made_of([a_window(within=f"{LENGTH}s", **when)], inputs, UNTIL, restarts))


SHAPED = [
    ({"kind": "count", "at_least": 3}, plain.count(3)),
    ({"kind": "distinct", "field": "value", "at_least": 3}, plain.distinct(3)),
    ({"kind": "sequence", "ordered": False}, plain.all_of("abc")),
    ({"kind": "sequence", "of": ["a", "b", "a"]}, plain.in_order("aba")),
    ({"kind": "sequence"}, plain.in_order("abc")),
]
MEASURED = [
    ({"kind": "threshold", "above": 3, "at_least": 2}, plain.above(3, 2)),
    ({"kind": "slope", "by": "30%", "samples": 3}, plain.rising(0.3, 3)),
    ({"kind": "spike", "by": "50%", "samples": 2, "newest": 2}, plain.jumping(0.5, 2, 2)),
]


@pytest.mark.parametrize(("when", "holds"), SHAPED, ids=[str(when["kind"]) for when, _ in SHAPED])
@given(events=FEW, shape=SHAPES, restarts=st.booleans())
def test_windows_of_every_shape_equal_plain_loops(
    when: dict[str, Any], holds: Holds, events: list[Event], shape: str, restarts: bool
) -> None:
    gap = {"gap": f"{GAP}s"} if shape == "session" else {}
    when = {"of": ["a", "b", "c"]} | when
    found = signals_of(events, restarts, **when, window=shape, **gap)
    assert found == plain.windowed([event for event in events if event.name in when["of"]], shape, LENGTH, GAP, holds)


@pytest.mark.parametrize(("when", "holds"), MEASURED, ids=[str(when["kind"]) for when, _ in MEASURED])
@given(events=ALL, restarts=st.booleans())
def test_windows_over_numbers_equal_plain_loops(
    when: dict[str, Any], holds: Holds, events: list[Event], restarts: bool
) -> None:
    found = signals_of(events, restarts, of=["a", "b", "c"], field="value", **when)
    assert found == plain.windowed(events, "sliding", LENGTH, GAP, holds)


@given(events=ALL, restarts=st.booleans())
def test_absence_and_flat_line_windows_equal_plain_loops(events: list[Event], restarts: bool) -> None:
    of_two: dict[str, Any] = {"kind": "absence", "of": "a", "without": "b"}
    two = [event for event in events if event.name in "ab"]
    assert signals_of(events, restarts, **of_two) == plain.absent_after(two, LENGTH, UNTIL)
    assert signals_of(events, restarts, **of_two, side="before") == plain.absent_before(events, LENGTH)
    assert signals_of(two, restarts, kind="flat-line", of=["a", "b"]) == plain.flat(two, LENGTH, UNTIL)


@given(events=ALL, learn=st.integers(0, 100), times=st.sampled_from([1.5, 3]), restarts=st.booleans())
def test_first_seen_and_rate_windows_equal_plain_loops(
    events: list[Event], learn: int, times: float, restarts: bool
) -> None:
    names = ["a", "b", "c"]
    new = signals_of(events, restarts, kind="first-seen", of=names, field="value", learn=f"{learn}s")
    assert new == plain.new_values(events, LENGTH, learn)
    often = signals_of(events, restarts, kind="rate", of=names, baseline=2, times=times, at_least=2)
    assert [second for second, _ in often] == plain.more_often(events, LENGTH, 2, times, 2)


WATCHED = ("nvidia.xid_79", "nvidia.xid_31", "nic.link_down", "nic.link_up", "progress.memory_sample")


def a_rule_set() -> RuleSet:
    """The bundled rules, and one window of each kind over some of them; its signals open incidents."""
    whens: dict[str, dict[str, Any]] = {
        "count": {"of": ["xid-*"], "at_least": 3},
        "tumbling": {"kind": "count", "of": ["nic-link-down"], "at_least": 2, "window": "tumbling"},
        "session": {"kind": "count", "of": ["nic-link-down"], "at_least": 2, "window": "session", "gap": "60s"},
        "distinct": {"of": ["xid-*"], "field": "node", "at_least": 2},
        "sequence": {"of": ["nic.link_down", "nic.link_up"]},
        "absence": {"of": ["nic.link_down"], "without": ["nic.link_up"]},
        "before": {"kind": "absence", "side": "before", "of": ["nic.link_up"], "without": ["nic.link_down"]},
        "rate": {"of": ["step"], "times": 2, "at_least": 3, "baseline": 2},
        "flat-line": {"of": ["step"]},
        "first-seen": {"of": ["xid-*"], "field": "class"},
        "threshold": {"of": ["progress.memory_sample"], "field": "gpu_used", "above": 3},
        "slope": {"of": ["progress.memory_sample"], "field": "gpu_used", "by": "10%", "samples": 3},
        "spike": {"of": ["step"], "field": "step_time_s", "by": "50%", "samples": 2},
        "tally": {"of": ["xid-*"], "at_least": 2},
        "chained": {"kind": "count", "of": ["test.sequence", "test.absence"], "at_least": 2},
    }
    windows = [
        a_window(f"test.{name.replace('-', '_')}", **({"kind": name, "within": "120s", "group_by": "node"} | when))
        for name, when in whens.items()
    ]
    return RuleSet((*BUNDLED.rules, *windows), BUNDLED.edges)


BUNDLED = load()
RULES = a_rule_set()
MATCHES = st.tuples(
    st.integers(0, 900), st.sampled_from(WATCHED), st.sampled_from(["n1", "n2"]), st.integers(1, 6)
).map(lambda drawn: a_match(drawn[1], drawn[0], drawn[2], fields={"gpu_used": str(drawn[3])}))
HEARTBEATS = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 200)), max_size=20).map(
    lambda steps: [a_step(step, second, "", "n1") for second, step in steps]
)


def windowed_by(engine: Engine) -> list[Signal]:
    engine.flush()
    return engine.windowed()


@given(st.lists(MATCHES, max_size=40), HEARTBEATS, st.data())
def test_order_copies_and_restarts_change_no_window(
    matches: list[Match], heartbeats: list[Any], data: st.DataObject
) -> None:
    plainly = Engine(RULES)
    plainly.add(matches, heartbeats)
    expected = windowed_by(plainly)
    again = data.draw(st.lists(st.sampled_from(matches), max_size=5)) if matches else []
    arriving = data.draw(st.permutations([*matches, *again]))
    stops = data.draw(st.lists(st.integers(1, 900), max_size=4).map(sorted))
    engine, made = Engine(RULES), list[Signal]()
    for stop in [*stops, 1000]:
        now = [match for match in arriving if match.event.event_time_ns < at(stop)]
        arriving = [match for match in arriving if match.event.event_time_ns >= at(stop)]
        engine.add(now, [heartbeat for heartbeat in heartbeats if heartbeat.event_time_ns < at(stop)])
        heartbeats = [heartbeat for heartbeat in heartbeats if heartbeat.event_time_ns >= at(stop)]
        last_ns = max((match.event.event_time_ns for match in matches), default=0)
        if stop < 1000 and at(stop) <= last_ns:
            engine.advance(at(stop) - 1)
        made += engine.windowed()
        engine = Engine(RULES, engine.snapshot())
    assert made + windowed_by(engine) == expected


@given(st.lists(MATCHES, min_size=1, max_size=30))
def test_records_processed_again_give_no_new_signal(matches: list[Match]) -> None:
    engine = Engine(RULES)
    engine.add(matches)
    first = {signal.signal_id for signal in windowed_by(engine)}
    engine.add(matches)
    assert {signal.signal_id for signal in windowed_by(engine)} <= first


def test_the_windows_of_these_properties_give_signals() -> None:
    engine = Engine(RULES)
    engine.add(
        [a_match(rule, 20 * number, node) for number in range(9) for rule in WATCHED[:4] for node in ("n1", "n2")],
        [a_step(number, 10 * number + 200 * (number > 8), "", "n1") for number in range(12)],
    )
    engine.add([a_match("progress.memory_sample", n, fields={"gpu_used": str(n)}) for n in range(1, 9)])
    fired = {signal.rule for signal in windowed_by(engine)}
    assert fired >= {f"test.{name}" for name in ("count", "session", "sequence", "slope", "flat_line", "chained")}
