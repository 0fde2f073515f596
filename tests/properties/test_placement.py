"""The map of ranks is read by time, however often it changed, and a snapshot between two banners changes nothing."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.model.records import RankPlacement
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.placement.placement import MAX_KEPT_VERSIONS, Placement

MOVES = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["n1", "n2", "n3"]), st.sampled_from(["g0", "g1"])), max_size=12
)


def seats(moves: list[tuple[int, str, str]]) -> list[RankPlacement]:
    return [
        RankPlacement((number + 1) * NS_PER_S, "c", "A", node, rank, gpu=gpu)
        for number, (rank, node, gpu) in enumerate(moves)
    ]


def taken(found: list[RankPlacement], cut: int = -1) -> Placement:
    placement = Placement()
    for number, seat in enumerate(found):
        if number == cut:
            placement = msgspec.msgpack.decode(msgspec.msgpack.encode(placement), type=Placement)
        placement.take(seat)
    return placement


@given(MOVES)
def test_each_time_is_read_by_its_own_map(moves: list[tuple[int, str, str]]) -> None:
    found = seats(moves)
    placement = taken(found)
    changes: dict[int, list[RankPlacement]] = {}
    for seat in found:
        of_rank = changes.setdefault(seat.rank, [])
        if not of_rank or (of_rank[-1].node, of_rank[-1].gpu) != (seat.node, seat.gpu):
            of_rank.append(seat)
    for rank, of_rank in changes.items():
        for seat in of_rank[-MAX_KEPT_VERSIONS:]:
            assert placement.node_of("c", "A", rank, seat.time_ns) == seat.node
            assert placement.rank_of("c", "A", seat.node, seat.time_ns, gpu=seat.gpu) is not None


@given(MOVES, st.integers(0, 12))
def test_a_snapshot_changes_nothing(moves: list[tuple[int, str, str]], cut: int) -> None:
    assert taken(seats(moves), cut) == taken(seats(moves))


@given(MOVES)
def test_a_repeated_banner_changes_nothing(moves: list[tuple[int, str, str]]) -> None:
    found = seats(moves)
    assert taken([one for seat in found for one in (seat, seat)]) == taken(found)
