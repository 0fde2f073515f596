"""Which ranks should have reported a timeout and did not: those in step with the reporters, where logs arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

MAX_SCATTERED: Final = 2
"""More places than this that are not adjacent lack lines rather than ranks."""

_SCATTERED_SHARE: Final = 8

NodeOf = Callable[[int], str]
"""The node of a rank; empty if unknown."""


@dataclass(frozen=True)
class Sources:
    """Where a job's lines come from.

    `speakers` are ranks whose own lines were seen, `placed` those that a banner places. `silent_nodes` had lines of the
    job, but no report; the shippers of `mute_nodes` stopped while the job trained on.
    """

    speakers: Set[int] = frozenset()
    placed: Set[int] = frozenset()
    silent_nodes: Set[str] = frozenset()
    mute_nodes: Set[str] = frozenset()


@dataclass(frozen=True)
class Absence:
    """The ranks that did not report, of how many that should have."""

    ranks: tuple[int, ...] = ()
    expected: int = 0


def absence(reported: Set[int], members: Set[int], node_of: NodeOf, sources: Sources) -> Absence:
    """The absent ranks; none if they are more than half, or so scattered that lines are missing rather than ranks."""
    candidates = (_in_step(sorted(reported), members) | (sources.speakers & members)) - reported
    heard = {rank for rank in candidates if _is_heard(rank, node_of(rank), sources)}
    expected = sorted(reported | heard)
    if not heard or 2 * len(heard) > len(expected):
        return Absence()
    return Absence(_likely(expected, heard, node_of), len(expected))


def _in_step(reported: Sequence[int], members: Set[int]) -> set[int]:
    """The ranks at the reporters' usual distance: all of a job, one a node, or only those that reported."""
    gaps = Counter(after - before for before, after in pairwise(reported))
    if not gaps:
        return set(reported)
    stride = min(gaps, key=lambda gap: (-gaps[gap], gap))
    offset = Counter(rank % stride for rank in reported).most_common(1)[0][0]
    return {rank for rank in members if rank % stride == offset}


def _is_heard(rank: int, node: str, sources: Sources) -> bool:
    """Whether lines of the rank's node arrive; a rank without a place may run on a node that reported nothing."""
    if node:
        return node not in sources.mute_nodes
    is_unplaced = bool(sources.placed or sources.mute_nodes) and rank not in sources.placed | sources.speakers
    return not is_unplaced or bool(sources.silent_nodes)


@dataclass
class _Group:
    """The expected ranks of a node; adjacent ranks of unknown nodes are one group."""

    node: str
    expected: list[int] = field(default_factory=list)
    absent: list[int] = field(default_factory=list)


def _likely(expected: Sequence[int], absent: Set[int], node_of: NodeOf) -> tuple[int, ...]:
    """The absent ranks without those that only chance explains: whole nodes, and single ranks if all are few."""
    groups = _groups(expected, absent, node_of)
    sizes = Counter(len(group.expected) for group in groups if group.node)
    usual = max(sizes, key=lambda size: (sizes[size], size), default=1)
    lacking = [group for group in groups if group.absent]
    if len(lacking) > 1:
        whole = [group for group in lacking if _is_whole(group, usual)]
        single = _few([group for group in lacking if group not in whole], len(expected))
        lacking = whole + single if len(whole) + len(single) <= MAX_SCATTERED else whole
    ranks = sorted(rank for group in lacking for rank in group.absent)
    is_scattered = len(lacking) > MAX_SCATTERED and not _are_adjacent(ranks, expected)
    return () if is_scattered else tuple(ranks)


def _groups(expected: Iterable[int], absent: Set[int], node_of: NodeOf) -> list[_Group]:
    groups: dict[str, _Group] = {}
    unknown: _Group | None = None
    for rank in expected:
        node = node_of(rank)
        is_unknown = not node and rank in absent
        name = node or f"/{rank}"
        group = unknown if is_unknown and unknown else groups.get(name) or groups.setdefault(name, _Group(node))
        unknown = group if is_unknown else None
        group.expected.append(rank)
        if rank in absent:
            group.absent.append(rank)
    return list(groups.values())


def _is_whole(group: _Group, usual: int) -> bool:
    return len(group.absent) == len(group.expected) >= (1 if group.node else usual)


def _few(lacking: list[_Group], expected: int) -> list[_Group]:
    ranks = sum(len(group.absent) for group in lacking)
    return lacking if len(lacking) <= MAX_SCATTERED and _SCATTERED_SHARE * ranks <= expected else []


def _are_adjacent(ranks: Sequence[int], expected: Sequence[int]) -> bool:
    return not ranks or expected.index(ranks[-1]) - expected.index(ranks[0]) < len(ranks)


def node_finder(nodes: Mapping[int, str]) -> NodeOf:
    """Finds the node of a rank: its own, or else that of both its neighbours, or of its block.

    Launchers number node by node.
    """
    between = {
        rank: nodes[first]
        for first, second in pairwise(sorted(nodes))
        if nodes[first] == nodes[second]
        for rank in range(first + 1, second)
    }
    size, node_by_block = _blocks(nodes)
    return lambda rank: nodes.get(rank) or between.get(rank, "") or node_by_block.get(rank // size, "")


def _blocks(nodes: Mapping[int, str]) -> tuple[int, dict[int, str]]:
    """How many ranks a node has, and the node of each block of so many; no blocks if two nodes share one."""
    ranks_by_node: dict[str, list[int]] = {}
    for rank in sorted(nodes):
        ranks_by_node.setdefault(nodes[rank], []).append(rank)
    size = max((ranks[-1] - ranks[0] + 1 for ranks in ranks_by_node.values()), default=1)
    blocks = {(rank // size, node) for rank, node in nodes.items()}
    return size, dict(blocks) if len(dict(blocks)) == len(blocks) else {}
