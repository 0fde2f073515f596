"""Words with `*` -> values that fit them in every combination in which a value can."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_MOST: Final = 1_000
_OTHER: Final = "\N{REPLACEMENT CHARACTER}"
"""Stands for every character that is in no word."""

_Rests = frozenset[tuple[int, str]]
"""Of which words which ends are still to come; a word may have several, since `*` may stand for more or less."""


def samples(words: Iterable[str]) -> list[str] | None:
    """Values such that each set of words which some value fits, and no others, is that of one of these.

    None when there would be too many of them. What has read so far of a value is all that counts for what may follow,
    so one value for each such state is enough.
    """
    first = _opened(enumerate(sorted(set(words))))
    value_by_state: dict[_Rests, str] = {}
    left = [(first, "")]
    while left and len(value_by_state) <= _MOST:
        state, value = left.pop()
        for char in _next_chars(state):
            then = _after(state, char)
            if then not in value_by_state:
                value_by_state[then] = value + char
                left.append((then, value + char))
    return None if left else sorted(value_by_state.values())


def _next_chars(state: _Rests) -> Sequence[str]:
    return sorted({rest[0] for _, rest in state if rest and rest[0] != "*"} | {_OTHER})


def _after(state: _Rests, char: str) -> _Rests:
    stays = [(number, rest) for number, rest in state if rest.startswith("*")]
    return _opened([*stays, *((number, rest[1:]) for number, rest in state if rest.startswith(char))])


def _opened(rests: Iterable[tuple[int, str]]) -> _Rests:
    """With what is left when `*` stands for nothing; beside a `*` that takes everything, the rest of a word is idle."""
    found: set[tuple[int, str]] = set()
    for number, rest in rests:
        found.add((number, rest))
        while rest.startswith("*"):
            rest = rest[1:]
            found.add((number, rest))
    ended = {number for number, rest in found if rest == "*"}
    return frozenset(one for one in found if one[0] not in ended or one[1] == "*")
