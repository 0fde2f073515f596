"""Texts with holes, as tables of messages have them: which of many is in a line."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Final, Generic, TypeVar

HOLE: Final = "{}"
"""In a text, what differs from line to line."""

_WORD: Final = re.compile(rb"\w+")
_WHOLE_WORD: Final = re.compile(rb"(?<=\W)\w+(?=\W)")

Pieces = tuple[bytes, ...]
RuleT = TypeVar("RuleT")


def pieces_of_text(text: str) -> Pieces:
    """The fixed parts of a text, between its holes."""
    return tuple(piece.encode() for piece in text.split(HOLE) if piece)


class TextIndex(Generic[RuleT]):
    """Finds the longest of many texts in a line: it tries only texts of which the line has a certain word.

    That word is the one that the fewest texts have. A word at the end of a piece may be a part of a longer one in the
    line, so it does not count; texts without any other word are always tried.
    """

    def __init__(self, texts: Iterable[tuple[Pieces, RuleT]]):
        rows = sorted(texts, key=lambda row: -sum(map(len, row[0])))
        words = [{word for piece in pieces for word in _WHOLE_WORD.findall(piece)} for pieces, _ in rows]
        uses = Counter(chain.from_iterable(words))
        self._rows = rows
        self._by_word: defaultdict[bytes, list[int]] = defaultdict(list)
        self._always: list[int] = []
        for place, found in enumerate(words):
            chosen = min(sorted(found), key=uses.__getitem__, default=None)
            (self._always if chosen is None else self._by_word[chosen]).append(place)

    def rule_in(self, line: bytes) -> RuleT | None:
        """The rule of the longest text that is in the line."""
        words = self._by_word.keys() & _WORD.findall(line)
        places = sorted(chain(self._always, *(self._by_word[word] for word in words)))
        return next((self._rows[place][1] for place in places if _has_in_order(line, self._rows[place][0])), None)


def _has_in_order(line: bytes, pieces: Pieces) -> bool:
    """Whether all pieces are in the line, each after the one before."""
    end = 0
    for piece in pieces:
        start = line.find(piece, end)
        if start < 0:
            return False
        end = start + len(piece)
    return True
