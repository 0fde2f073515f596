"""Which records of a batch may fit which patterns: one Hyperscan call for the whole batch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol, TypeGuard

import hyperscan

from epicenter.rules.match.compiled import database

Hit = tuple[int, int]
"""(number of the record in the batch, number of the pattern)"""


class Scanner(Protocol):
    """Finds candidates: which record may fit which pattern."""

    def scan(self, values: Sequence[bytes]) -> list[Hit]:
        """(record, pattern) pairs, in order."""


class Text(Protocol):
    """Records in one piece of text, each followed by a newline."""

    text: bytes

    def numbers_at(self, ends: Sequence[int]) -> list[int]:
        """The records that hold the bytes before these offsets, which come in rising order."""


class HyperscanScanner:
    """Searches batches of records for many patterns at once. A hit is a candidate: confirm it on its own record.

    Records are joined by newlines, so a pattern may run over a border; such a hit is a candidate too many, never one
    too few, because every end of a match is reported. A newline ends the last record too: Hyperscan 5.4 overlooks some
    matches that end where the data ends. One scanner a thread: it owns one scratch space. `marks` are more patterns, to
    be searched for in the same pass.
    """

    def __init__(self, patterns: Sequence[str], marks: Sequence[str] = ()):
        self._database = database((*patterns, *marks))
        self._scratch = hyperscan.Scratch(self._database)
        self.patterns, self.has_marks = len(patterns), bool(marks)

    def scan(self, values: Sequence[bytes]) -> list[Hit]:
        """Candidates in order, each once. A text in one piece is searched as it is, without cutting it up."""
        return self.scan_with_marks(values)[0]

    def scan_with_marks(self, values: Sequence[bytes]) -> tuple[list[Hit], list[Hit]]:
        """Candidates, and which records bear which marks, both in order."""
        hits = self._hits(values)
        if not self.has_marks:
            return hits, []
        first_mark = self.patterns
        marks = [(record, number - first_mark) for record, number in hits if number >= first_mark]
        return ([hit for hit in hits if hit[1] < first_mark] if marks else hits), marks

    def _hits(self, values: Sequence[bytes]) -> list[Hit]:
        found: list[Hit] = []
        if _is_text(values):
            self._search(values.text, found)
            found.sort()
            numbers = values.numbers_at([end for end, _ in found])
            return sorted(set(zip(numbers, [pattern for _, pattern in found], strict=True)))
        self._search(b"\n".join([*values, b""]), found)
        if not found:
            return []
        ends = list(accumulate(len(value) + 1 for value in values))
        return sorted({(bisect_left(ends, end), pattern) for end, pattern in found})

    def _search(self, text: bytes, found: list[Hit]) -> None:
        self._database.scan(text, match_event_handler=_record_hit, context=found, scratch=self._scratch)  # type: ignore[arg-type]


class GroupedScanner:
    """Searches for further groups of patterns, numbered after those of the first scanner."""

    def __init__(self, first: HyperscanScanner, *groups: Sequence[str]):
        starts = accumulate(map(len, groups), initial=first.patterns)
        more = [(start, HyperscanScanner(group)) for start, group in zip(starts, groups, strict=False) if group]
        self._scanners = [(0, first), *more]

    def scan(self, values: Sequence[bytes]) -> list[Hit]:
        """Candidates in order, each once."""
        found = ((start, scanner.scan(values)) for start, scanner in self._scanners)
        return sorted((record, start + number) for start, hits in found for record, number in hits)


def _is_text(values: Sequence[bytes]) -> TypeGuard[Text]:
    """Cheaper than `isinstance` with the protocol, which takes ten microseconds, once per line with a failure."""
    return hasattr(values, "numbers_at")


def _record_hit(pattern: int, _start: int, end: int, _flags: int, found: list[Hit]) -> None:
    found.append((end, pattern))
