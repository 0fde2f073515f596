"""Up to where a source was read, for a later start."""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

import msgspec

MAX_KEPT: Final = 256


class FilePosition(msgspec.Struct, frozen=True, tag="file"):
    """The end of a line of a file, with so many `lines` before it, or of another one after `skipped_lines` more.

    `mark` are the bytes just before, by which the file is known again: the number of a removed file may be used again.
    """

    inode: int
    offset_bytes: int = 0
    lines: int = 0
    mark: bytes = b""
    skipped_lines: int = 0

    @property
    def first_line(self) -> int:
        """The number of the next line to process."""
        return self.lines + self.skipped_lines + 1


class JournalPosition(msgspec.Struct, frozen=True, tag="journal"):
    """An entry of the systemd journal, by journald's name for it, with so many `lines` up to it, or one after it."""

    cursor: str
    lines: int
    skipped_lines: int = 0
    inode: int = 0

    @property
    def first_line(self) -> int:
        """The number of the next line to process."""
        return self.lines + self.skipped_lines + 1


class KmsgPosition(msgspec.Struct, frozen=True, tag="kmsg"):
    """The number of the next record of the kernel's ring buffer since a boot."""

    boot_id: str
    next_number: int


SourcePosition = FilePosition | JournalPosition | KmsgPosition
Known = TypeVar("Known", FilePosition, JournalPosition)


class Positions(Generic[Known]):
    """The newest positions of a source, since lines of it may be buffered that are to be read again after a restart."""

    def __init__(self, start: Known | None = None):
        self._known: deque[Known] = deque([start] if start else (), MAX_KEPT)

    def __bool__(self) -> bool:
        return bool(self._known)

    def append(self, position: Known) -> None:
        """The source was read up to there."""
        self._known.append(position)

    def newest(self) -> Known | None:
        """The newest position. Earlier ones are given up."""
        while len(self._known) > 1:
            self._known.popleft()
        return self._known[0] if self._known else None

    def before(self, line: int) -> Known | None:
        """That before a line of the first file since the oldest position; None if it was given up."""
        of_first = [position for position in self._known if position.inode == self._known[0].inode]
        before = [position for position in of_first if position.lines < line]
        return msgspec.structs.replace(before[-1], skipped_lines=line - 1 - before[-1].lines) if before else None
