"""Causal edges by the classes that they connect, and the search for cycles among them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from epicenter.rules.model.signals import CLOCK_SKEW_NS
from epicenter.rules.packs.spec import EdgeSpec, is_named


class EdgeIndex:
    """Edges by cause and effect. Lookups are cached: there are few pairs of classes."""

    def __init__(self, edges: Sequence[EdgeSpec]):
        self._edges = edges
        self._causing: dict[str, tuple[EdgeSpec, ...]] = {}
        self._caused: dict[str, bool] = {}
        self._between: dict[tuple[str, str], tuple[EdgeSpec, ...]] = {}

    def causing(self, cause: str) -> tuple[EdgeSpec, ...]:
        """The edges that lead away from a class."""
        if cause not in self._causing:
            self._causing[cause] = tuple(edge for edge in self._edges if is_named(cause, edge.cause))
        return self._causing[cause]

    def leads_to(self, effect: str) -> bool:
        """Whether any class is known to cause this one."""
        if effect not in self._caused:
            self._caused[effect] = any(is_named(effect, edge.effect) for edge in self._edges)
        return self._caused[effect]

    def between(self, cause: str, effect: str) -> tuple[EdgeSpec, ...]:
        """The edges that lead from one class to another, in the order of their files; none leads to itself."""
        between = self._between.get((cause, effect))
        if between is None:
            found = (edge for edge in self.causing(cause) if cause != effect and is_named(effect, edge.effect))
            between = self._between[cause, effect] = tuple(found)
        return between


class Loop(NamedTuple):
    """A cycle of classes that would explain each other. Edge n leads from class n to class n + 1.

    The last edge is the one that was read last, so the mistake is most likely there.
    """

    classes: tuple[str, ...]
    edges: tuple[EdgeSpec, ...]


def loops(edges: Sequence[EdgeSpec]) -> list[Loop]:
    """Cycles of classes in which each may cause the next at the same time.

    Scopes don't break a cycle, because a narrow scope lies within wider ones (a GPU in a node, a node in a job). Only
    time does: it is no cycle if the shortest lags (`after`) of its edges, less the clock skew of each, sum to more than
    zero.
    """
    index, found, left = EdgeIndex(edges), list[Loop](), _steps(edges)
    for component in _components(left):
        within = {cause: effects & component for cause, effects in left.items()}
        while ring := _ring(index, {cause: within[cause] for cause in component}):
            loop = _newest_last(Loop(ring, tuple(_soonest(index, *pair) for pair in _pairs(ring))), edges)
            found.append(loop)
            within[loop.classes[-1]].discard(loop.classes[0])
    return found


def _newest_last(loop: Loop, edges: Sequence[EdgeSpec]) -> Loop:
    order = {id(edge): number for number, edge in enumerate(edges)}
    start = 1 + max(range(len(loop.edges)), key=lambda number: order[id(loop.edges[number])])
    return Loop(loop.classes[start:] + loop.classes[:start], loop.edges[start:] + loop.edges[:start])


def _steps(edges: Sequence[EdgeSpec]) -> dict[str, set[str]]:
    """The effects of each class; `xid-*` includes all Xids that no edge names."""
    names = {name for edge in edges for name in (*edge.cause, *edge.effect) if not name.startswith("!")}
    steps: dict[str, set[str]] = {name: set() for name in names}
    for edge in edges:
        effects = _selected(edge.effect, names)
        for cause in _selected(edge.cause, names):
            steps[cause] |= effects - {cause}
    return steps


def _selected(patterns: tuple[str, ...], names: set[str]) -> set[str]:
    wild = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    selected = {name for name in names if name.startswith(wild)} if wild else set()
    return (selected | names.intersection(patterns)) - {pattern[1:] for pattern in patterns if pattern.startswith("!")}


def _soonest(index: EdgeIndex, cause: str, effect: str) -> EdgeSpec:
    return min(index.between(cause, effect), key=lambda edge: edge.after)


def _pairs(ring: Sequence[str]) -> Iterable[tuple[str, str]]:
    return zip(ring, (*ring[1:], ring[0]), strict=True)


def _components(steps: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components with more than one class."""
    backwards: dict[str, set[str]] = defaultdict(set)
    for cause, effects in steps.items():
        for effect in effects:
            backwards[effect].add(cause)
    left, components = set(steps), list[set[str]]()
    for name in sorted(steps):
        if name in left:
            component = (_reached(name, steps, left) & _reached(name, backwards, left)) | {name}
            left -= component
            components += [component] if len(component) > 1 else []
    return components


def _reached(start: str, steps: dict[str, set[str]], among: set[str]) -> set[str]:
    reached, ahead = set[str](), [start]
    while ahead:
        more = (steps.get(ahead.pop(), set()) & among) - reached
        reached |= more
        ahead += more
    return reached


def _ring(index: EdgeIndex, steps: dict[str, set[str]]) -> tuple[str, ...] | None:
    """A cycle that takes no time: pairs first, then Bellman-Ford's search for negative cycles."""
    pairs = [(cause, effect) for cause in sorted(steps) for effect in sorted(steps[cause])]
    lag_ns = {pair: _soonest(index, *pair).after - CLOCK_SKEW_NS for pair in pairs}
    for cause, effect in pairs:
        if lag_ns[cause, effect] + lag_ns.get((effect, cause), CLOCK_SKEW_NS * 2**30) <= 0:
            return cause, effect
    # A sum of 0 ns must count as negative too, so 1 / (n + 1) ns is subtracted from each of at most n edges.
    scale = len(steps) + 1
    reached, before = dict.fromkeys(steps, 0), dict[str, str]()
    for _ in steps:
        last = ""
        for cause, effect in pairs:
            if (sooner := reached[cause] + lag_ns[cause, effect] * scale - 1) < reached[effect]:
                reached[effect], before[effect], last = sooner, cause, effect
        if not last:
            return None
    return _ring_before(last, before)


def _ring_before(name: str, before: dict[str, str]) -> tuple[str, ...]:
    for _ in before:
        name = before[name]
    ring = [name]
    while (name := before[name]) != ring[0]:
        ring.append(name)
    return tuple(reversed(ring))
