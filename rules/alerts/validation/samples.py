"""Words with `*` -> values that fit them, one for every possible combination of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_MAX_SAMPLES: Final = 1_000
_OTHER: Final = "\N{REPLACEMENT CHARACTER}"
"""In place of every character that is in no word."""

_Rests = frozenset[tuple[int, str]]
"""The rests of words still to be read; a word may have several, since `*` fits texts of any length."""


def samples(words: Iterable[str]) -> list[str] | None:
    """For each set of words that some value fits exactly, one such value; None if there would be too many.

    What may follow depends only on the rests of the words, so one value for each such state is enough.
    """
    first = _opened(enumerate(sorted(set(words))))
    value_by_state: dict[_Rests, str] = {}
    left = [(first, "")]
    while left and len(value_by_state) <= _MAX_SAMPLES:
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
    """Adds what is left when `*` is empty. Once a word is down to a final `*`, its other rests no longer matter."""
    found: set[tuple[int, str]] = set()
    for number, rest in rests:
        found.add((number, rest))
        while rest.startswith("*"):
            rest = rest[1:]
            found.add((number, rest))
    ended = {number for number, rest in found if rest == "*"}
    return frozenset((number, rest) for number, rest in found if number not in ended or rest == "*")
