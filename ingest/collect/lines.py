"""Chunks of bytes, as they are read -> numbered lines, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Final, NamedTuple

from epicenter.ingest.batch.columns import Numbers
from epicenter.ingest.batch.text import TextLines
from epicenter.ingest.parse.cri import CriJoiner

MAX_LINE_BYTES: Final = 16 << 20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Lines(NamedTuple):
    """Lines without their ends, and the number of each, from 1. A line joined from parts has that of its first."""

    numbers: Sequence[int]
    values: Sequence[bytes]


class LineCutter:
    """Cuts one text into lines. It buffers the line that has no end yet, and the parts of a container's long lines.

    A line longer than `longest_bytes` comes out when it is that long, and its rest is skipped. It is far too large to
    process, so it becomes a dead letter, whose position leads to all of it. `lines_before`: so many lines of the text
    come before what it gets; None where that is its beginning.
    """

    def __init__(self, longest_bytes: int = MAX_LINE_BYTES, lines_before: int | None = None):
        self._longest_bytes = longest_bytes
        self._joiner = CriJoiner()
        self._partial = b""
        self._is_skipping = False
        self._has_begun = lines_before is not None
        self._newest = lines_before or 0
        self._last: Sized = ()

    def cut(self, chunk: bytes) -> Lines:
        """The lines that end in this chunk."""
        if not self._has_begun:
            self._has_begun, chunk = bool(chunk), chunk.removeprefix(_BYTE_ORDER_MARK)
        if self._is_skipping:
            _, newline, chunk = chunk.partition(b"\n")
            self._is_skipping = not newline
        if not chunk:
            return Lines((), [])
        end = chunk.rfind(b"\n") + 1
        text = TextLines(b"".join((self._partial, memoryview(chunk)[:end])) if end else b"")
        self._partial = chunk[end:] if end else self._partial + chunk
        lines = self._numbered(text)
        if len(self._partial) > self._longest_bytes:
            rest, self._partial, self._is_skipping = self._partial, b"", True
            cut = self._numbered([rest])
            lines = Lines([*lines.numbers, *cut.numbers], [*lines.values, *cut.values])
        return self._joined(text, lines)

    def end(self) -> Lines:
        """The last line, without an end: the text is complete."""
        last, self._partial = self._partial, b""
        text = TextLines(last + b"\n" if last else b"")
        whole = self._joined(text, self._numbered(text.cut_up()))
        rest = self._joiner.rest()
        return Lines([*whole.numbers, *(number for number, _ in rest)], [*whole.values, *(value for _, value in rest)])

    @property
    def lines(self) -> int:
        """How many lines of the text have ended."""
        return self._newest + len(self._last)

    @property
    def waiting_bytes(self) -> int | None:
        """How many of the newest bytes are in no line yet; None if the rest of a line before them is to come."""
        return None if self._is_skipping or self._joiner.is_waiting else len(self._partial)

    @property
    def is_waiting(self) -> bool:
        """Whether it buffers something."""
        return bool(self._partial) or self._is_skipping or self._joiner.is_waiting

    def _numbered(self, values: Sequence[bytes]) -> Lines:
        """Number the lines. The previous ones are counted only here."""
        self._newest += len(self._last)
        self._last = values
        return Lines(Numbers(self._newest + 1, values), values)

    def _joined(self, text: TextLines, lines: Lines) -> Lines:
        if not self._joiner.has_work(text):
            return lines
        joined = self._joiner.join(zip(*lines, strict=True))
        return Lines([number for number, _ in joined], [value for _, value in joined])
