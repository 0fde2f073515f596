"""Many records as one piece of text: joined once, and searched by columns instead of one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

_USUAL_TEXT: Final = (
    *(b'"message":"', b'"log":"', b'"MESSAGE":"', b'"msg":"'),
    *(b'"message": "', b'"log": "', b'"MESSAGE": "', b'"msg": "'),
)
_MAX_SHAPES: Final = 8
"""At most this many places of the text field are tried before records are read one by one."""
FIRST_BYTES: Final = (0x00, 0x0A, 0x1F, *range(0x81, 0x90))
"""Every known binary record begins with one of these; hardly any line does."""

_BEFORE_A_NAME: Final = np.frombuffer(b'" \t\r\n', np.uint8)
_IS_BINARY: Final = np.isin(np.arange(256), FIRST_BYTES)
_SURROGATE: Final = [np.isin(np.arange(256), list(those)) for those in (b"u", b"dD", b"89abcdefABCDEF")]
"""Which bytes may follow the backslash of one, in order."""

_BRACE, _QUOTE, _END_BRACE, _BACKSLASH, _NEWLINE_ESCAPE = b'{"}\\n'

Numbers = NDArray[np.int64]
Bytes = NDArray[np.uint8]


class Records(Sequence[bytes]):
    """The values of records, and `text`: all of them, each ended by a newline."""

    def __init__(self, values: Sequence[bytes]):
        self.values = values
        self.text = b"\n".join([*values, b""])
        self._sizes_bytes: Numbers = np.fromiter(map(len, values), np.int64, len(values))
        self._ends: Numbers = np.cumsum(self._sizes_bytes + 1)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, number: int) -> bytes: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[bytes]: ...

    def __getitem__(self, number: int | slice) -> bytes | Sequence[bytes]:
        return self.values[number]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.values)

    def numbers_at(self, ends: Sequence[int]) -> list[int]:
        """The number of the record that holds the byte before each of these offsets."""
        return _listed(self._numbers_at(np.array(ends, np.int64)))

    def empty(self) -> list[int]:
        """Records without a single byte."""
        return _listed(np.flatnonzero(self._sizes_bytes == 0))

    def longer_than(self, size_bytes: int) -> list[int]:
        """Records with more bytes than that."""
        return _listed(np.flatnonzero(self._sizes_bytes > size_bytes))

    def escaped(self) -> list[int]:
        """Records with a backslash somewhere, apart from a line end of the text (`\\n"`)."""
        places = self._backslashes
        is_line_end = (self._at(places + 1) == _NEWLINE_ESCAPE) & (self._at(places + 2) == _QUOTE)
        return _listed(np.unique(self._numbers_at(places[~is_line_end] + 1)))

    def suspicious_envelopes(self) -> list[int]:
        """Envelopes whose text is not where the usual shippers put it, whose end is missing, or with surrogates."""
        starts = self._ends - self._sizes_bytes - 1
        has_name = np.isin(self._at(starts + 1), _BEFORE_A_NAME) & (self._sizes_bytes > 1)
        envelopes = np.flatnonzero((self._at(starts) == _BRACE) & has_name)
        has_end = self._at(self._ends[envelopes] - 2) == _END_BRACE
        endless = [number for number in envelopes[~has_end].tolist() if not _ends_well(self.values[number])]
        return sorted({*endless, *self._without_text(envelopes, starts), *self._with_surrogates()})

    def _with_surrogates(self) -> list[int]:
        """Records with an escape such as `\\ud800`: JSON only if it has its other half."""
        places = self._backslashes
        for after, is_wanted in enumerate(_SURROGATE, 1):
            places = places[is_wanted[self._at(places + after)]]
        return _listed(np.unique(self._numbers_at(places + 1)))

    def begun_in_binary(self) -> list[int]:
        """Records whose first byte is that of a binary format; some of them are text after all."""
        firsts = self._at(self._ends - self._sizes_bytes - 1)
        return _listed(np.flatnonzero(_IS_BINARY[firsts] & (self._sizes_bytes > 0)))

    def _without_text(self, doubtful: Numbers, starts: Numbers) -> list[int]:
        """Most shippers put the text at the same few places, so a record's place is tried on all others."""
        without = []
        for _ in range(_MAX_SHAPES):
            if not len(doubtful):
                break
            mark, place = _text_mark(self.values[doubtful[0]])
            if mark:
                doubtful = doubtful[~self._holds(doubtful, mark, starts[doubtful] + place)]
            else:
                without.append(int(doubtful[0]))
                doubtful = doubtful[1:]
        return without + [number for number in doubtful.tolist() if not _text_mark(self.values[number])[0]]

    def _holds(self, numbers: Numbers, mark: bytes, places: Numbers) -> NDArray[np.bool_]:
        """Which of the records contain these bytes at their place."""
        fits = places + len(mark) < self._ends[numbers]
        for index, byte in enumerate(mark):
            fits &= self._at(places + index) == byte
        return fits

    def _numbers_at(self, ends: Numbers) -> Numbers:
        return np.searchsorted(self._ends, ends)

    def _at(self, places: Numbers) -> Bytes:
        """The bytes at these places; after the end of the text, its last byte."""
        return self._bytes.take(places, mode="clip")

    @cached_property
    def _backslashes(self) -> Numbers:
        """Their places. Most texts have none, which is the cheapest to find out."""
        return np.flatnonzero(self._bytes == _BACKSLASH) if b"\\" in self.text else np.empty(0, np.int64)

    @cached_property
    def _bytes(self) -> Bytes:
        return np.frombuffer(self.text or b"\n", np.uint8)


def _listed(numbers: Numbers) -> list[int]:
    found: list[int] = numbers.tolist()
    return found


def _text_mark(value: bytes) -> tuple[bytes, int]:
    """The field that holds the text, and its place; empty and -1 if the record has none of the usual ones."""
    return next(((mark, place) for mark in _USUAL_TEXT if (place := value.find(mark)) >= 0), (b"", -1))


def _ends_well(value: bytes) -> bool:
    return value.endswith((b"}", b"}\n", b"}\r\n"))
