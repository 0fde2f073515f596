"""Chunks of bytes, as they are read -> numbered lines, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ingest.parse.cri import CriJoiner

LONGEST_LINE_BYTES: Final = 16 << 20


class Lines(NamedTuple):
    """Lines without their ends, and the number of each, from 1. A line joined from parts has that of its first."""

    numbers: Sequence[int]
    values: list[bytes]


class LineCutter:
    """Cuts one text into lines. It keeps the line that has no end yet, and the parts of a container's long lines.

    A line longer than `longest_bytes` comes out when it is that long; the rest of it is passed over. It is far too
    large to be processed, so it becomes a dead letter, whose position leads to all of it.
    """

    def __init__(self, longest_bytes: int = LONGEST_LINE_BYTES):
        self._longest_bytes = longest_bytes
        self._joiner = CriJoiner()
        self._partial = b""
        self._is_passing_over = False
        self._newest = 0

    def cut(self, chunk: bytes) -> Lines:
        """The lines that end in this chunk."""
        if self._is_passing_over:
            _, newline, chunk = chunk.partition(b"\n")
            self._is_passing_over = not newline
        if not chunk:
            return Lines((), [])
        text = self._partial + chunk
        *values, self._partial = text.split(b"\n")
        if len(self._partial) > self._longest_bytes:
            values.append(self._partial)
            self._partial, self._is_passing_over = b"", True
        return self._joined(text, self._numbered(values))

    def end(self) -> Lines:
        """What has no end: nothing more will come of this text."""
        last, self._partial = self._partial, b""
        whole = self._joined(last, self._numbered([last] if last else []))
        rest = self._joiner.rest()
        return Lines([*whole.numbers, *(number for number, _ in rest)], [*whole.values, *(value for _, value in rest)])

    def _numbered(self, values: list[bytes]) -> Lines:
        first, self._newest = self._newest + 1, self._newest + len(values)
        return Lines(range(first, first + len(values)), [value.removesuffix(b"\r") for value in values])

    def _joined(self, text: bytes, lines: Lines) -> Lines:
        if not self._joiner.has_work(text):
            return lines
        joined = self._joiner.join(zip(*lines, strict=True))
        return Lines([number for number, _ in joined], [value for _, value in joined])
