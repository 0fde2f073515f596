"""Patterns compiled for Hyperscan, cached on disk: a machine compiles each list of patterns once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import version

import hyperscan

from epicenter.rules.match.disk_cache import digest, load, store


def _ignore(patterns: int) -> None:
    pass


before_compiling: Callable[[int], None] = _ignore
"""Called with the number of patterns before they are compiled, which takes seconds for thousands."""

_KIND = "patterns"
_END_OF_LINE = re.compile(rb"(?<!\\)((?:\\\\)*)\$\Z")


_SOUGHT = re.compile(rb"\^?\(\?#sought:([^)]+)\)")


def prefilter(pattern: bytes) -> bytes:
    """What to search for anywhere in a batch: the pattern without its anchors, which mean the ends of one record.

    A pattern may state this itself, in a comment at its start: `(?#sought:\\d%\\|)`.
    """
    if stated := _SOUGHT.match(pattern):
        return stated[1]
    return _END_OF_LINE.sub(rb"\1", pattern.removeprefix(b"^"))


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
    return digest(text.encode("utf-8", "surrogatepass") for text in (version("hyperscan"), *patterns))
