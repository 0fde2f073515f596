"""Lines from a pipe: standard input, or the output of a program."""

from __future__ import annotations

import os
import sys
from select import select
from typing import Final

from ingest.batch import Batch

READ_BYTES: Final = 1 << 20


class PipeSource:
    """Lines as they come through a file descriptor, without waiting for more."""

    def __init__(self, host: str, descriptor: int | None = None, name: str = "stdin"):
        self.name = name
        self.has_ended = False
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._host = host.encode()
        self._line = 0
        self._partial = b""

    def read(self, now_ns: int) -> Batch | None:
        """The lines that have come, numbered from 1."""
        lines = [] if self.has_ended else self._lines()
        if not lines:
            return None
        first, self._line = self._line + 1, self._line + len(lines)
        keys, received_ns = [self._host] * len(lines), [now_ns] * len(lines)
        return Batch(self.name, lines, keys, received_ns, range(first, first + len(lines)), is_text=True)

    def close(self) -> None:
        """Nothing to let go of: the descriptor belongs to somebody else."""

    def _lines(self) -> list[bytes]:
        if not select([self._descriptor], [], [], 0)[0]:
            return []
        chunk = os.read(self._descriptor, READ_BYTES)
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        if not chunk:
            self.has_ended = True
            lines, self._partial = [self._partial] if self._partial else [], b""
        return lines
