"""Compiles patterns so that no text keeps them busy, and refuses those that a hostile text could."""

from __future__ import annotations

import re
from functools import lru_cache
from math import isinf
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, AnyStr, Final, NamedTuple

from epicenter.rules.match.pattern_graph import ONE_BYTE, REPEATS, TooManyPlacesError
from epicenter.rules.match.search_work import search_work

MAX_WORK: Final = 2**28
"""At most about this many steps for one search: a second or so."""

_BACK_REFERENCE: Final = re.compile(r"\\[1-9]|\(\?P=")


class Bounds(NamedTuple):
    """A search reads at most `text` bytes; a repeat without an upper bound matches at most `repeat` of them."""

    text: int
    repeat: int


LINE: Final = Bounds(1 << 16, 1 << 10)
"""For what is searched for in whole lines."""

FIELD: Final = Bounds(1 << 14, 1 << 14)
"""For what is searched for near a match only."""

TEMPLATE: Final = Bounds(1 << 8, 1 << 8)
"""For the words of a template."""

SECRET: Final = FIELD
"""For secrets: an upper bound of a repeat would leave the rest of a long one in the text."""


def compiled(pattern: AnyStr, bounds: Bounds = LINE) -> re.Pattern[AnyStr]:
    r"""The pattern, compiled: `\w+: x` is tried only where a run of word characters begins.

    The first match in a text stays: one that began inside of such a run could begin one character earlier as well.
    """
    found: re.Pattern[AnyStr] = compiler.compile(_bounded(pattern, bounds))
    return found


def searched(line: AnyStr) -> AnyStr:
    """What patterns are searched for in: the line, or the two ends of one that is longer than `LINE.text`."""
    if len(line) <= LINE.text:
        return line
    half = LINE.text // 2
    newline = "\n" if isinstance(line, str) else b"\n"
    return newline.join((line[:half], line[-half:]))


def work_fault(pattern: str, bounds: Bounds) -> str:
    """Why a hostile line could keep `re` busy with the pattern, and what to write instead; empty if none could."""
    try:
        work = search_work(_bounded(pattern.encode("utf-8", "surrogatepass"), bounds), *bounds)
    except (TooManyPlacesError, RecursionError):
        return "it is too long to be checked: split it into several"
    if isinf(work):
        return (
            "a group that repeats can read the same text in more than one way, so that a long line would take "
            "forever: put text that the group can't contain between its turns (`(?:a+,)+`, not `(?:a+,?)+`), "
            "or repeat it at most 4 times"
        )
    if work > MAX_WORK:
        return (
            f"a long line could take {work:.0e} steps, and {MAX_WORK:.0e} are allowed, since its repeats can read the "
            "same text: give them upper bounds (`.{0,80}`), let a class leave out what follows (`[^:]*:`), "
            "or start with ^"
        )
    return ""


@lru_cache(maxsize=256)
def _bounded(pattern: AnyStr, bounds: Bounds) -> Any:
    tree = parser.parse(pattern)
    text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    if not _BACK_REFERENCE.search(text):
        _begin_at_run_starts(tree)
    if bounds.repeat < bounds.text and ("*" in text or "+" in text or ",}" in text):
        _limit_repeats(tree, bounds.repeat)
    return tree


def _begin_at_run_starts(tree: Any) -> None:
    if not len(tree):
        return
    kind, content = tree[0]
    if kind is kinds.SUBPATTERN:
        _begin_at_run_starts(content[-1])
    elif kind is kinds.BRANCH:
        for part in content[1]:
            _begin_at_run_starts(part)
    elif kind in REPEATS:
        _, most, repeated = content
        if most == 1:
            _begin_at_run_starts(repeated)
        elif most is kinds.MAXREPEAT and len(repeated) == 1 and repeated[0][0] in ONE_BYTE:
            tree.insert(0, (kinds.ASSERT_NOT, (-1, repeated)))


def _limit_repeats(tree: Any, longest: int) -> None:
    """Give repeats an upper bound, apart from those that are tried only where a run begins."""
    for number, (kind, content) in enumerate(tree):
        for part in _parts(kind, content):
            _limit_repeats(part, longest)
        if kind in REPEATS and content[1] is kinds.MAXREPEAT and not _is_run(tree, number):
            tree[number] = kind, (content[0], max(content[0], longest), content[-1])


def _is_run(tree: Any, number: int) -> bool:
    before, content = tree[max(0, number - 1)]
    return before is kinds.ASSERT_NOT and content[1] is tree[number][1][-1]


def _parts(kind: Any, content: Any) -> list[Any]:
    """The parts of a pattern inside of one of its items."""
    if kind is kinds.BRANCH:
        return list(content[1])
    if kind is kinds.GROUPREF_EXISTS:
        return [part for part in content[1:] if part]
    if kind is kinds.ATOMIC_GROUP:
        return [content]
    return [content[-1]] if kind in (kinds.SUBPATTERN, kinds.ASSERT, kinds.ASSERT_NOT) or kind in REPEATS else []
