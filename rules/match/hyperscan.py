"""Which records of a batch may fit which patterns: one Hyperscan call for the whole batch."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from tempfile import NamedTemporaryFile

import hyperscan

Hit = tuple[int, int]
"""(number of the record in the batch, number of the pattern)"""


def prefilter(pattern: bytes) -> bytes:
    """What to look for anywhere in a batch: the pattern without its anchor, which means the start of one record."""
    return pattern.removeprefix(b"^")


def refusal(pattern: bytes) -> str:
    """Why Hyperscan can't take the pattern, and what to write instead; empty when it can."""
    try:
        hyperscan.Database().compile(expressions=[prefilter(pattern)], ids=[0])
    except hyperscan.error as error:
        return (
            f"can't be searched in bulk ({error}): do without look-around, back-references, atomic groups "
            "and patterns that match nothing"
        )
    return ""


def is_compilable(patterns: Sequence[str]) -> bool:
    """Whether all patterns can be searched together, by `re` and by Hyperscan. What was found is remembered on disk."""
    try:
        if _cached(patterns) is None:
            for pattern in patterns:
                re.compile(pattern.encode())
            database(patterns)
    except (re.error, OverflowError, RecursionError, hyperscan.error):
        return False
    return True


def database(patterns: Sequence[str]) -> hyperscan.Database:
    """The patterns compiled, from the cache when this machine has done it before; numbers are places in the list."""
    if (found := _cached(patterns)) is not None:
        return found
    compiled = hyperscan.Database()
    compiled.compile(
        expressions=[prefilter(pattern.encode()) for pattern in patterns],
        ids=list(range(len(patterns))),
        flags=[0] * len(patterns),
    )
    _keep(patterns, hyperscan.dumpb(compiled))
    return compiled


def _cached(patterns: Sequence[str]) -> hyperscan.Database | None:
    try:
        return hyperscan.loadb(_cache_file(patterns).read_bytes(), hyperscan.HS_MODE_BLOCK)
    except (OSError, hyperscan.error):
        return None


def _keep(patterns: Sequence[str], content: bytes) -> None:
    file = _cache_file(patterns)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=file.parent, delete=False) as new:
            new.write(content)
        Path(new.name).replace(file)
    except OSError:
        return  # a machine without a writable cache compiles each time


def _cache_file(patterns: Sequence[str]) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    known = blake2b("\0".join((version("hyperscan"), *patterns)).encode("utf-8", "surrogatepass"), digest_size=16)
    return Path(home) / "epicenter" / "patterns" / known.hexdigest()


class HyperscanScanner:
    """Searches batches of records for many patterns at once. A hit is a candidate: confirm it on its own record.

    Records are joined by newlines, so a pattern may run over a border; such a hit is a candidate too many, never one
    too few, because every end of a match is reported. One scanner a thread: it owns one scratch space.
    """

    def __init__(self, patterns: Sequence[str]):
        self._database = database(patterns)
        self._scratch = hyperscan.Scratch(self._database)

    def scan(self, values: Sequence[bytes]) -> list[Hit]:
        """Candidates in order, each once."""
        found: list[Hit] = []
        self._database.scan(b"\n".join(values), match_event_handler=_note, context=found, scratch=self._scratch)  # type: ignore[arg-type]
        if not found:
            return []
        ends = list(accumulate(len(value) + 1 for value in values))
        return sorted({(bisect_left(ends, end), pattern) for end, pattern in found})


def _note(pattern: int, _start: int, end: int, _flags: int, found: list[Hit]) -> None:
    found.append((end, pattern))
