"""Placements are read as of a time, however often they change, and a snapshot between two banners changes nothing."""

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


def rank_placements(moves: list[tuple[int, str, str]]) -> list[RankPlacement]:
    return [
        RankPlacement((number + 1) * NS_PER_S, "c", "A", node, rank, gpu=gpu)
        for number, (rank, node, gpu) in enumerate(moves)
    ]


def placement_of(found: list[RankPlacement], cut: int = -1) -> Placement:
    placement = Placement()
    for number, rank_placement in enumerate(found):
        if number == cut:
            placement = msgspec.msgpack.decode(msgspec.msgpack.encode(placement), type=Placement)
        placement.record(rank_placement)
    return placement


@given(MOVES)
def test_placements_are_read_as_of_a_time(moves: list[tuple[int, str, str]]) -> None:
    found = rank_placements(moves)
    placement = placement_of(found)
    changes: dict[int, list[RankPlacement]] = {}
    for rank_placement in found:
        of_rank = changes.setdefault(rank_placement.rank, [])
        if not of_rank or (of_rank[-1].node, of_rank[-1].gpu) != (rank_placement.node, rank_placement.gpu):
            of_rank.append(rank_placement)
    for rank, of_rank in changes.items():
        for rank_placement in of_rank[-MAX_KEPT_VERSIONS:]:
            assert placement.node_of("c", "A", rank, rank_placement.time_ns) == rank_placement.node
            assert (
                placement.rank_of("c", "A", rank_placement.node, rank_placement.time_ns, gpu=rank_placement.gpu)
                is not None
            )


@given(MOVES, st.integers(0, 12))
def test_a_snapshot_changes_nothing(moves: list[tuple[int, str, str]], cut: int) -> None:
    assert placement_of(rank_placements(moves), cut) == placement_of(rank_placements(moves))


@given(MOVES)
def test_a_repeated_banner_changes_nothing(moves: list[tuple[int, str, str]]) -> None:
    found = rank_placements(moves)
    assert placement_of([banner for banner in found for _ in range(2)]) == placement_of(found)
