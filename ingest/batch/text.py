"""The lines of a large text, split only where they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from epicenter.ingest.batch.clean import UNCLEAN
from epicenter.rules.match.marks import Marks

_NEWLINE = b"\n"
_ENVELOPES = (b'{"', b"{ ", b"{\t")
_NEXT_ENVELOPES = tuple(_NEWLINE + start for start in _ENVELOPES)
_UNSEEN = tuple(text.encode() for text in UNCLEAN)
_CONTAINER_PARTS = (b" stdout P", b" stderr P")


@cache
def _marks_of_text() -> Marks:
    return Marks((*_NEXT_ENVELOPES, *_UNSEEN, *_CONTAINER_PARTS))


class TextLines(Sequence[bytes]):
    """The lines of a text that ends with a newline, from 0, each without its line end.

    The ends of the lines are looked for once, when they are first asked for.
    """

    def __init__(self, text: bytes):
        self.text = text

    def __bool__(self) -> bool:
        return bool(self.text)

    def __len__(self) -> int:
        return len(self._newlines)

    @overload
    def __getitem__(self, number: int) -> bytes: ...

    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...

    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        start = int(self._newlines[number - 1]) + 1 if number else 0
        return self.text[start : int(self._newlines[number])].removesuffix(b"\r")

    def cut_up(self) -> list[bytes]:
        """All lines."""
        return [line.removesuffix(b"\r") for line in self.text.split(_NEWLINE)[:-1]]

    def numbers_at(self, ends: Iterable[int]) -> list[int]:
        """The number of the line that holds the byte before each of these offsets."""
        numbers: list[int] = self._newlines.searchsorted(np.fromiter(ends, np.int64) - 1).tolist()
        return numbers

    @property
    def is_plain(self) -> bool:
        """Whether none of its lines is a JSON envelope."""
        return not self.text.startswith(_ENVELOPES) and self._marks.isdisjoint(_NEXT_ENVELOPES)

    @property
    def has_container_parts(self) -> bool:
        """Whether some of its lines may be parts of longer ones."""
        return not self._marks.isdisjoint(_CONTAINER_PARTS)

    def cleaned_differently(self) -> list[int]:
        """The numbers of the lines with colours, NULs and the like, which are not part of a line's text."""
        present = [re.escape(mark) for mark in _UNSEEN if mark in self._marks]
        if not present:
            return []
        found = re.compile(b"|".join(present)).finditer(self.text)
        return sorted(set(self.numbers_at(match.end() for match in found)))

    @cached_property
    def _newlines(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(np.frombuffer(self.text, np.uint8) == ord(_NEWLINE))

    @cached_property
    def _marks(self) -> set[bytes]:
        return _marks_of_text().found_in(self.text)

    def has_longer(self, size_bytes: int) -> bool:
        """Whether a line may be longer than this; never false when one is."""
        half = size_bytes // 2
        return any(self.text.find(_NEWLINE, start, start + half) < 0 for start in range(0, len(self.text) - half, half))
