"""A pattern as a graph of places, each of which reads one byte, and then leads to the places that may come next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

REPEATS: Final = (kinds.MAX_REPEAT, kinds.MIN_REPEAT)
ONE_BYTE: Final = (kinds.IN, kinds.LITERAL, kinds.NOT_LITERAL, kinds.ANY)

MAX_COPIES: Final = 4
"""A group that repeats at most this often is read as so many copies of it."""

MAX_PLACES: Final = 4000
"""At most this many places in a pattern."""

_ANY_BYTE: Final = (1 << 256) - 1
_WORD: Final = sum(1 << byte for byte in range(256) if re.match(rb"\w", bytes([byte])))
_ALL_REPEATS: Final = (*REPEATS, kinds.POSSESSIVE_REPEAT)
_CHECKS: Final = (kinds.AT, kinds.ASSERT, kinds.ASSERT_NOT, kinds.GROUPREF)
_BEGINNINGS: Final = (kinds.AT_BEGINNING, kinds.AT_BEGINNING_STRING)
_BYTES_BY_ITEM: Final[dict[tuple[Any, str, int], int]] = {}


class TooManyPlacesError(Exception):
    """More of them than `MAX_PLACES`."""


@dataclass
class Place:
    """Reads one of the bytes in `known` (as bits), up to `most` times, which is possible in `ways` lengths.

    A group around it repeats `turns` times. A search does not begin here after a byte in `not_after`. If it
    `is_checked`, the pattern looks at what comes next without reading it.
    """

    known: int
    least: int = 1
    most: int = 1
    ways: int = 1
    turns: float = 1
    not_after: int = 0
    is_checked: bool = False
    nexts: list[int] = field(default_factory=list)


class _Part(NamedTuple):
    """The places where a part of the pattern begins and ends, and whether it matches empty text."""

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    is_optional: bool = True


class PatternGraph:
    """The places of a parsed pattern; `firsts` are those where a match may begin.

    Repeats without an upper bound read at most `longest_repeat` bytes.
    """

    def __init__(self, tree: Any, longest_repeat: int):
        self._longest = longest_repeat
        self.places: list[Place] = []
        self._width_by_group: dict[int | None, int] = {}
        flags = tree.state.flags
        whole = self._sequence(tree, flags)
        self.firsts = whole.first
        self._end_in(whole.last)
        head = tree[0] if len(tree) else None
        self.is_anchored = head in [(kinds.AT, at) for at in _BEGINNINGS] and not flags & re.MULTILINE

    def _end_in(self, lasts: Iterable[int]) -> None:
        """Where nothing follows, a repeat can't fail once it has its least length."""
        for place in map(self.places.__getitem__, lasts):
            if not place.is_checked:
                place.most, place.ways = max(1, place.least), 1

    def _sequence(self, tree: Iterable[tuple[Any, Any]], flags: int) -> _Part:
        whole, not_after, is_at_border = _Part(), 0, False
        for kind, content in tree:
            part = self._part(kind, content, flags)
            for place in map(self.places.__getitem__, part.first):
                is_border = is_at_border and place.known | _WORD == _WORD
                place.not_after |= not_after | (_WORD if is_border else 0)
            whole = self._joined(whole, part)
            if kind in _CHECKS:
                self._check(whole.last)
            not_after = self._excluded_before(kind, content, flags)
            is_at_border = (kind, content) == (kinds.AT, kinds.AT_BOUNDARY)
        return whole

    def _check(self, lasts: Iterable[int]) -> None:
        for place in map(self.places.__getitem__, lasts):
            place.is_checked = True

    def _excluded_before(self, kind: Any, content: Any, flags: int) -> int:
        """The bytes after which a look-behind such as `(?<!\\w)` lets nothing begin."""
        is_look_behind = kind is kinds.ASSERT_NOT and content[0] < 0 and len(content[1]) == 1
        item, item_content = content[1][0] if is_look_behind else (None, None)
        return _bytes_of(item, item_content, flags) if item in ONE_BYTE else 0

    def _part(self, kind: Any, content: Any, flags: int) -> _Part:
        if kind in ONE_BYTE:
            return self._place(_bytes_of(kind, content, flags))
        if kind is kinds.SUBPATTERN:
            number, added, removed, inner = content
            self._width_by_group[number] = inner.getwidth()[1]
            return self._sequence(inner, (flags | added) & ~removed)
        if kind is kinds.BRANCH:
            return self._either(content[1], flags)
        if kind in _ALL_REPEATS:
            least, most, repeated = content
            return self._repeat(least, most, repeated, flags, kind is kinds.POSSESSIVE_REPEAT)
        if kind is kinds.ATOMIC_GROUP:
            return self._sequence(content, flags)
        if kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            return _Part(self._sequence(content[1], flags).first)
        if kind is kinds.GROUPREF:
            width = min(self._width_by_group.get(content, 1), self._longest)
            return self._place(_ANY_BYTE, 0, width, width)._replace(is_optional=True)
        if kind is kinds.GROUPREF_EXISTS:
            return self._either([choice or [] for choice in content[1:]], flags)
        return _Part()

    def _place(self, known: int, least: int = 1, most: int = 1, ways: int = 1) -> _Part:
        if len(self.places) >= MAX_PLACES:
            raise TooManyPlacesError
        number = len(self.places)
        self.places.append(Place(known, least, most, ways, nexts=[number] if most > 1 else []))
        return _Part((number,), (number,), False)

    def _joined(self, first: _Part, other: _Part) -> _Part:
        self._connect(first.last, other.first)
        return _Part(
            first.first + other.first if first.is_optional else first.first,
            other.last + first.last if other.is_optional else other.last,
            first.is_optional and other.is_optional,
        )

    def _connect(self, lasts: Iterable[int], firsts: Sequence[int]) -> None:
        for last in lasts:
            self.places[last].nexts += firsts

    def _either(self, choices: Iterable[Any], flags: int) -> _Part:
        parts = [self._sequence(choice, flags) for choice in choices]
        first = tuple(number for part in parts for number in part.first)
        last = tuple(number for part in parts for number in part.last)
        return _Part(first, last, any(part.is_optional for part in parts))

    def _repeat(self, least: int, most: int, repeated: Any, flags: int, is_possessive: bool) -> _Part:
        if len(repeated) == 1 and repeated[0][0] in ONE_BYTE and most:
            times = min(int(most), max(least, self._longest))
            ways = 1 if is_possessive else times - least + 1
            item, item_content = repeated[0]
            part = self._place(_bytes_of(item, item_content, flags), least, times, ways)
            return part._replace(is_optional=least == 0)
        if most <= MAX_COPIES:
            return self._copies(least, most, repeated, flags)
        begin = len(self.places)
        part = self._sequence(repeated, flags)
        self._connect(part.last, part.first)
        for place in self.places[begin:]:
            place.turns *= most
        return part._replace(is_optional=part.is_optional or least == 0)

    def _copies(self, least: int, most: int, repeated: Any, flags: int) -> _Part:
        whole = _Part()
        for number in range(most):
            copy = self._sequence(repeated, flags)
            whole = self._joined(whole, copy._replace(is_optional=copy.is_optional or number >= least))
        return whole


def _bytes_of(kind: Any, content: Any, flags: int) -> int:
    """The bytes that an item such as `[a-z]` matches, as bits."""
    key = kind, repr(content), flags & (re.IGNORECASE | re.DOTALL)
    if key not in _BYTES_BY_ITEM:
        state = parser.State()
        state.flags = key[-1]
        item = compiler.compile(parser.SubPattern(state, [(kind, content)]))
        _BYTES_BY_ITEM[key] = sum(1 << byte for byte in range(256) if item.match(bytes([byte])))
    return _BYTES_BY_ITEM[key]
