"""Whose turn it is to be read."""

from __future__ import annotations

from epicenter.ingest.collect.turns import BUSY_NS, Due, Turns

ROUND_NS = 100_000_000


def test_every_source_gets_a_turn_in_its_time_and_few_in_a_round() -> None:
    turns = Turns()
    for number in range(100):
        turns.add(f"often{number}", Due.OFTEN)
        turns.add(f"rarely{number}", Due.RARELY)
    turns.add("pipe", Due.ALWAYS)
    now_ns = 1000 * ROUND_NS
    assert len(turns.next((), now_ns)) == 201, "all are new"
    rounds = [turns.next((), now_ns + number * ROUND_NS) for number in range(1, 101)]
    assert {len(names) for names in rounds} == {5 + 1 + 1}
    assert all("pipe" in names for names in rounds)
    assert len({name for names in rounds[:20] for name in names if name.startswith("often")}) == 100
    assert len({name for names in rounds for name in names}) == 201


def test_a_source_with_new_lines_gets_every_turn_for_a_while() -> None:
    turns = Turns()
    for number in range(1000):
        turns.add(f"{number}", Due.RARELY)
    turns.next((), ROUND_NS)
    turns.record_lines("500")
    assert "500" in turns.next((), BUSY_NS)
    turns.next((), BUSY_NS + 2 * ROUND_NS)
    assert "500" not in turns.next((), BUSY_NS + 3 * ROUND_NS)


def test_a_source_that_changed_has_the_next_turn_and_each_has_one() -> None:
    turns = Turns()
    for number in range(1000):
        turns.add(f"{number}", Due.RARELY)
    turns.next((), ROUND_NS)
    turns.record_lines("500")
    names = turns.next(["500", "501"], 2 * ROUND_NS)
    assert [names.count("500"), names.count("501")] == [1, 1]
