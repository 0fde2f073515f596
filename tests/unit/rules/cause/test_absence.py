"""Which ranks should have reported a timeout, and which of them did not."""

from __future__ import annotations

from random import Random

import pytest

from epicenter.rules.cause.absence import Absence, Sources, absence, node_finder

PER_NODE = 8
EVERYWHERE = Sources()


def node_of(rank: int) -> str:
    return f"n{rank // PER_NODE}"


def world(nodes: int) -> set[int]:
    return set(range(nodes * PER_NODE))


def first_ranks(nodes: int) -> set[int]:
    return set(range(0, nodes * PER_NODE, PER_NODE))


def found(reported: set[int], nodes: int, sources: Sources = EVERYWHERE) -> Absence:
    placed = {rank: node_of(rank) for rank in reported | sources.placed}
    return absence(reported, world(nodes), node_finder(placed), sources)


@pytest.mark.parametrize("nodes", [16, 128, 512])
def test_of_nodes_whose_first_rank_alone_logs_the_silent_one_is_absent(nodes: int) -> None:
    assert found(first_ranks(nodes) - {40}, nodes) == Absence((40,), nodes)


@pytest.mark.parametrize("nodes", [2, 16, 128, 512])
def test_of_nodes_whose_ranks_all_log_all_ranks_of_the_silent_one_are_absent(nodes: int) -> None:
    silent = set(range(PER_NODE, 2 * PER_NODE))
    assert found(world(nodes) - silent, nodes) == Absence(tuple(sorted(silent)), nodes * PER_NODE)


def test_where_rank_0_alone_logs_no_rank_is_absent() -> None:
    assert found({0}, 16) == Absence()
    assert found({0}, 16, Sources(placed=frozenset(world(16)))) == Absence()


def test_of_two_nodes_one_is_absent_if_its_rank_has_spoken() -> None:
    assert found({0}, 2, Sources(speakers=frozenset({0, 8}))) == Absence((8,), 2)


@pytest.mark.parametrize("nodes", [16, 128])
@pytest.mark.parametrize("seed", range(5))
def test_with_half_of_the_lines_no_other_node_than_the_silent_one_is_absent(nodes: int, seed: int) -> None:
    draw, silent = Random(seed), range(5 * PER_NODE, 6 * PER_NODE)
    reported = {rank for rank in world(nodes) if rank not in silent and draw.random() < 0.5}
    sources = Sources(placed=frozenset(world(nodes)))
    nodes_absent = {node_of(rank) for rank in found(reported, nodes, sources).ranks}
    assert nodes_absent <= {"n5"} | {node for node in map(node_of, world(nodes)) if _is_without(node, reported)}


def _is_without(node: str, reported: set[int]) -> bool:
    return node not in map(node_of, reported)


@pytest.mark.parametrize("seed", range(5))
def test_with_half_of_the_lines_of_one_rank_a_node_no_rank_is_absent(seed: int) -> None:
    draw = Random(seed)
    assert found({rank for rank in first_ranks(128) if draw.random() < 0.5}, 128).ranks == ()


def test_gaps_on_many_nodes_are_missing_lines() -> None:
    assert found(world(16) - {3, 17, 42, 77, 90}, 16).ranks == ()


def test_a_rank_of_a_node_whose_logs_had_stopped_is_not_absent() -> None:
    reported = first_ranks(16) - {40, 72}
    sources = Sources(placed=frozenset(first_ranks(16)), mute_nodes=frozenset({"n5"}))
    assert found(reported, 16, sources) == Absence((72,), 15)


def test_a_rank_that_never_spoke_is_not_absent_where_the_others_printed_banners() -> None:
    placed = frozenset(first_ranks(16) - {40})
    assert found(first_ranks(16) - {40}, 16, Sources(placed=placed)) == Absence()
    assert found(first_ranks(16) - {40}, 16, Sources(placed=placed, silent_nodes=frozenset({"n5"}))).ranks == (40,)


def test_whole_nodes_come_before_scattered_ranks() -> None:
    silent = set(range(40, 48))
    assert found(world(16) - silent - {3, 77}, 16).ranks == tuple(sorted(silent))


def test_a_single_rank_is_absent_next_to_one_whole_node() -> None:
    silent = set(range(40, 48))
    assert found(world(16) - silent - {77}, 16).ranks == (*sorted(silent), 77)
