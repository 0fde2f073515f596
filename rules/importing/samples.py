"""Lines that match a pattern, and a near miss: made from the pattern and checked against it."""

from __future__ import annotations

import re
from collections.abc import Callable
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

CANDIDATES: Final = "7x4kZ_ -:/.(\"'#="
_CATEGORIES: Final[dict[Any, Callable[[str], bool]]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_WORD: lambda character: character.isalnum() or character == "_",
    sre.CATEGORY_NOT_DIGIT: lambda character: not character.isdigit(),
    sre.CATEGORY_NOT_SPACE: lambda character: not character.isspace(),
    sre.CATEGORY_NOT_WORD: lambda character: not (character.isalnum() or character == "_"),
}


def samples(pattern: str) -> list[str]:
    """Two lines that match; if the pattern allows only one, the second is the first with a word before it.

    Raises:
        ValueError: no line could be made that is certain to match.
    """
    lines = [_text(pattern, variant) for variant in (0, 1)]
    if lines[0] == lines[1] and not pattern.startswith("^"):
        lines[1] = f"again: {lines[0]}"
    if misses := [line for line in lines if not re.search(pattern, line)]:
        raise ValueError(f"no example could be made from {pattern!r} ({misses[0]!r} does not match)")
    return lines


def near_miss(pattern: str) -> str:
    """A line of `samples` without one of its characters, so that it no longer matches."""
    whole = _text(pattern, 0)
    shorter = (whole[:at] + whole[at + 1 :] for at, character in enumerate(whole) if character.isalpha())
    if found := next((line for line in shorter if not re.search(pattern, line)), ""):
        return found
    raise ValueError(f"no near miss could be made from {pattern!r}: it has no fixed text")


def _text(pattern: str, variant: int) -> str:
    return _walk(parser.parse(pattern), variant)


def _walk(tree: Any, variant: int) -> str:
    return "".join(_part(kind, argument, variant) for kind, argument in tree)


def _part(kind: Any, argument: Any, variant: int) -> str:
    if kind is sre.LITERAL:
        return chr(argument)
    if kind is sre.AT:
        return ""
    if kind is sre.BRANCH:
        choices = argument[1]
        return _walk(choices[variant % len(choices)], variant)
    if kind is sre.SUBPATTERN:
        return _walk(argument[-1], variant)
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        least, most, inner = argument
        return _walk(inner, variant) * int(max(least, min(most, 1 + variant)))
    items = {sre.IN: argument, sre.ANY: [], sre.NOT_LITERAL: [(sre.NEGATE, None), (sre.LITERAL, argument)]}.get(kind)
    if items is None:
        raise ValueError(f"no example can be made of {kind}")
    fitting = [character for character in _of_set(items) if not items or _is_in(items, character)]
    if not fitting:
        raise ValueError("no example can be made of a set of rare characters")
    return fitting[variant % len(fitting)]


def _of_set(items: Any) -> str:
    return CANDIDATES + "".join(
        chr(character[0] if kind is sre.RANGE else character) for kind, character in items if _is_fixed(kind)
    )


def _is_fixed(kind: Any) -> bool:
    return kind in (sre.LITERAL, sre.RANGE)


def _is_in(items: Any, character: str) -> bool:
    found = any(
        (kind is sre.LITERAL and ord(character) == argument)
        or (kind is sre.RANGE and argument[0] <= ord(character) <= argument[1])
        or (kind is sre.CATEGORY and _CATEGORIES[argument](character))
        for kind, argument in items
    )
    return found != any(kind is sre.NEGATE for kind, _ in items)
