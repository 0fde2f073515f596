"""Patterns compiled for Hyperscan, cached on disk: a machine compiles each list of patterns once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from platform import python_version

import hyperscan

from epicenter.rules.match import fixed_text
from epicenter.rules.match.disk_cache import digest, load, store
from epicenter.rules.match.fixed_text import fixed_texts, quoted


def _ignore(patterns: int) -> None:
    pass


before_compiling: Callable[[int], None] = _ignore
"""Called with the number of patterns before they are compiled, which takes seconds for thousands."""

_KIND = "patterns"
_END_OF_LINE = re.compile(rb"(?<!\\)((?:\\\\)*)\$\Z")


_SOUGHT = re.compile(rb"\^?\(\?#sought:([^)]+)\)")
_UNBOUNDED = re.compile(rb"\^?\(\?#unbounded\)")
_BOUNDED_CLASS = re.compile(rb"(\[(?!\^)(?:\\.|[^\]\\])+\]|\\[wd])\{(\d+),\d+\}")


def prefilter(pattern: bytes) -> bytes:
    """What to search for anywhere in a batch: fixed text of the pattern if it is long, else all of it.

    A pattern may state this itself, in a comment at its start: `(?#sought:\\d%\\|)`. With `(?#unbounded)` it is all of
    it, and its classes may repeat without end, which takes Hyperscan fewer states.
    """
    if unbounded := _UNBOUNDED.match(pattern):
        return _BOUNDED_CLASS.sub(_at_least, _without_anchors(pattern[unbounded.end() :]))
    if stated := _SOUGHT.match(pattern):
        return stated[1]
    return b"|".join(sorted(map(quoted, fixed_texts(pattern)))) or _without_anchors(pattern)


def _without_anchors(pattern: bytes) -> bytes:
    """Anchors mean the ends of one record, not of the batch."""
    return _END_OF_LINE.sub(rb"\1", pattern.removeprefix(b"^"))


def _at_least(found: re.Match[bytes]) -> bytes:
    return found[1] + (b"+" if int(found[2]) else b"*")


def refusal(pattern: bytes) -> str:
    """Why Hyperscan can't compile the pattern, and what to write instead; empty if it can."""
    try:
        hyperscan.Database().compile(expressions=[prefilter(pattern)], ids=[0])
    except hyperscan.error as error:
        return (
            f"Hyperscan can't compile it ({error}): avoid look-around, back-references, atomic groups "
            "and patterns that match empty text"
        )
    return ""


def is_compilable(patterns: Sequence[str]) -> bool:
    """Whether `re` and Hyperscan can compile all patterns together. The result is cached on disk."""
    try:
        if _cached(patterns) is None:
            for pattern in patterns:
                re.compile(pattern.encode())
            database(tuple(patterns))
    except (re.error, OverflowError, RecursionError, hyperscan.error):
        return False
    return True


@lru_cache(maxsize=8)
def database(patterns: tuple[str, ...]) -> hyperscan.Database:
    """The compiled patterns, from the cache if possible; ids are indexes in the list."""
    if (found := _cached(patterns)) is not None:
        return found
    before_compiling(len(patterns))
    compiled = hyperscan.Database()
    compiled.compile(
        expressions=[prefilter(pattern.encode()) for pattern in patterns],
        ids=list(range(len(patterns))),
        flags=[0] * len(patterns),
    )
    store(_KIND, _name(patterns), hyperscan.dumpb(compiled))
    return compiled


def _cached(patterns: Sequence[str]) -> hyperscan.Database | None:
    content = load(_KIND, _name(patterns))
    try:
        return hyperscan.loadb(content, hyperscan.HS_MODE_BLOCK) if content else None
    except hyperscan.error:
        return None


def _name(patterns: Sequence[str]) -> str:
    return digest([*_code(), *(pattern.encode("utf-8", "surrogatepass") for pattern in patterns)])


@cache
def _code() -> tuple[bytes, ...]:
    """What decides how a pattern is compiled."""
    own = (Path(file).read_bytes() for file in (__file__, fixed_text.__file__))
    return *own, version("hyperscan").encode(), python_version().encode()
