"""How much work a search with `re` can be, from the pattern alone, for the most hostile text.

`re` tries every way to divide a text among repeats. Two repeats share text if a path from one to the other reads only
bytes that both read: then each length of the one is tried with each length of the other. The search itself is such a
repeat, since it begins at any byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from operator import or_
from typing import Any, NamedTuple

from epicenter.rules.match.pattern_graph import PatternGraph, Place

_Pair = tuple[int, int]


class _Loop(NamedTuple):
    """Places that lead to each other, or one alone: together they read bytes in `known` up to `most` times."""

    numbers: tuple[int, ...]
    known: int
    most: float
    ways: float


def search_work(tree: Any, text_length: int, longest_repeat: int) -> float:
    """About how many steps a search for the parsed pattern takes at most in a text of this many bytes.

    Repeats without an upper bound match at most `longest_repeat` bytes. Infinite if the steps double with each byte.
    """
    graph = PatternGraph(tree, longest_repeat)
    groups = _groups([place.nexts for place in graph.places])
    if any(_doubles(graph.places, group) for group in groups):
        return math.inf
    return _Walk(graph, groups, text_length).most_work()


class _Walk:
    """Follows the loops of a pattern in order, and multiplies the ways of those that share text."""

    def __init__(self, graph: PatternGraph, groups: Sequence[tuple[int, ...]], text_length: int):
        self._graph, self._places, self._length = graph, graph.places, text_length
        self._loops = [_loop([graph.places[number] for number in group], group, text_length) for group in groups]
        self._loop_of = {number: index for index, group in enumerate(groups) for number in group}

    def most_work(self) -> float:
        """The most steps on any way through the pattern."""
        ways = [self._ways_from_start(index) for index in range(len(self._loops))]
        for index in reversed(range(len(self._loops))):
            for later, more in self._continued(index):
                ways[later] = max(ways[later], ways[index] * more)
        work = (ways[index] * loop.most / loop.ways for index, loop in enumerate(self._loops))
        return max(self._length, *work, 0)

    def _ways_from_start(self, index: int) -> float:
        loop = self._loops[index]
        if self._graph.is_anchored:
            return loop.ways
        starts = [number for number in self._graph.firsts if loop.known & ~self._places[number].not_after]
        return self._length * max(1.0, loop.ways * self._share(starts, index, loop.known))

    def _continued(self, index: int) -> Iterator[tuple[int, float]]:
        """The loops that come after this one, each with the factor by which there are more ways."""
        loop = self._loops[index]
        nexts = [n for number in loop.numbers for n in self._places[number].nexts if self._loop_of[n] != index]
        yield from ((self._loop_of[number], 1.0) for number in nexts)
        if loop.ways == 1:
            return
        for later in self._reached(nexts, loop.known):
            known = loop.known & self._loops[later].known
            yield later, max(1.0, self._loops[later].ways * self._share(nexts, later, known))

    def _reached(self, firsts: Iterable[int], known: int) -> set[int]:
        """The loops to which paths over known bytes lead."""
        return {self._loop_of[path[-1]] for path in self._paths(firsts, known)}

    def _share(self, firsts: Iterable[int], target: int, known: int) -> float:
        """At what share of the bytes of a text the target can begin, if paths to it read only known bytes."""
        for path in self._paths(firsts, known):
            if self._loop_of[path[-1]] == target:
                return 1 / _period([self._places[number].known & known for number in path[:-1]])
        return 0.0

    def _paths(self, firsts: Iterable[int], known: int) -> Iterator[tuple[int, ...]]:
        """The shortest path to each place over places that read some of the known bytes."""
        paths: list[tuple[int, ...]] = [(number,) for number in firsts]
        seen: set[int] = set()
        for path in paths:
            place = self._places[path[-1]]
            if path[-1] not in seen and place.known & known:
                seen.add(path[-1])
                yield path
                paths += [(*path, number) for number in place.nexts]


def _period(path: Sequence[int]) -> int:
    """The least distance at which a text can match this path twice."""
    for distance in range(1, len(path)):
        if all(first & other for first, other in zip(path, path[distance:], strict=False)):
            return distance
    return max(1, len(path))


def _loop(places: Sequence[Place], numbers: tuple[int, ...], text_length: int) -> _Loop:
    if len(places) == 1:
        return _Loop(numbers, places[0].known, places[0].most, places[0].ways)
    most = min(text_length, sum(place.turns * place.most for place in places))
    return _Loop(numbers, reduce(or_, (place.known for place in places)), most, most)


def _doubles(places: Sequence[Place], group: tuple[int, ...]) -> bool:
    """Whether one text leads from a place of the group back to it in two ways, so that ways double with each turn."""
    nexts = {number: [n for n in places[number].nexts if n in group] for number in group}
    if any(len(set(inside)) < len(inside) for inside in nexts.values()):
        return True
    same = [(number, number) for number in group]
    before: dict[_Pair, list[_Pair]] = {}
    for pair in _reachable(same, lambda pair: _next_pairs(places, nexts, pair)):
        for after in _next_pairs(places, nexts, pair):
            before.setdefault(after, []).append(pair)
    return any(first != other for first, other in _reachable(same, lambda pair: before.get(pair, [])))


def _next_pairs(places: Sequence[Place], nexts: Mapping[int, list[int]], pair: _Pair) -> list[_Pair]:
    """Where two ways can be after one more byte that both read."""
    both = product(nexts[pair[0]], nexts[pair[1]])
    return [(first, other) for first, other in both if places[first].known & places[other].known]


def _reachable(starts: Iterable[_Pair], nexts: Callable[[_Pair], Iterable[_Pair]]) -> list[_Pair]:
    found = dict.fromkeys(starts)
    waiting = list(found)
    for pair in waiting:
        new = [after for after in nexts(pair) if after not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return list(found)


def _groups(nexts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The groups of places that lead to each other, each after those that it leads to (Kosaraju)."""
    before: list[list[int]] = [[] for _ in nexts]
    for number, following in enumerate(nexts):
        for n in following:
            before[n].append(number)
    grouped: set[int] = set()
    found = [
        tuple(_finished(before, [number], grouped)) for number in reversed(_finished(nexts, range(len(nexts)), set()))
    ]
    return [group for group in reversed(found) if group]


def _finished(nexts: Sequence[Sequence[int]], starts: Iterable[int], seen: set[int]) -> list[int]:
    """The places that can be reached, each after all that it leads to, apart from those already seen."""
    done: list[int] = []
    for start in starts:
        steps = [] if start in seen else [(start, iter(nexts[start]))]
        seen.add(start)
        while steps:
            _, left = steps[-1]
            following = next((n for n in left if n not in seen), None)
            if following is None:
                done.append(steps.pop()[0])
            else:
                seen.add(following)
                steps.append((following, iter(nexts[following])))
    return done
