"""Which of a few byte strings a large text holds: one pass for all of them."""

from __future__ import annotations

from collections.abc import Sequence

import hyperscan

from epicenter.rules.match.fixed_text import quoted


class Marks:
    """Searches texts for a few byte strings, optionally in any case. Use one a thread: it owns a scratch space."""

    def __init__(self, marks: Sequence[bytes], in_any_case: bool = False):
        flags = hyperscan.HS_FLAG_SINGLEMATCH | (hyperscan.HS_FLAG_CASELESS if in_any_case else 0)
        self._marks = tuple(marks)
        self._database = hyperscan.Database()
        self._database.compile(
            expressions=list(map(quoted, marks)),
            ids=list(range(len(marks))),
            flags=[flags] * len(marks),
        )
        self._scratch = hyperscan.Scratch(self._database)

    def found_in(self, text: bytes) -> set[bytes]:
        """Those of the byte strings that the text holds."""
        found: set[bytes] = set()
        self._database.scan(text, match_event_handler=self._record_hit, context=found, scratch=self._scratch)  # type: ignore[arg-type]
        return found

    def _record_hit(self, number: int, _start: int, _end: int, _flags: int, found: set[bytes]) -> None:
        found.add(self._marks[number])
