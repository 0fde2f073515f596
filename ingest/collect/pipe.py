"""Lines from a pipe: standard input, or the output of a program."""

from __future__ import annotations

import os
import sys
from select import select
from typing import Final

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.columns import Repeated
from epicenter.ingest.collect.lines import LineCutter, Lines
from epicenter.ingest.provenance.log_file import BLANKS, fault_of
from epicenter.ingest.provenance.stated import NOTHING, Stated
from epicenter.rules.model.job_names import OF_A_LOG
from epicenter.rules.model.records import Origin

READ_BYTES: Final = 1 << 20


class PipeSource:
    """Lines as they come through a file descriptor, without waiting for more.

    `is_recording`: they were written at some time before, so their receipt says nothing about it. `fault` is why they
    are no log, in a sentence; empty if they are one.
    """

    def __init__(
        self,
        host: str,
        descriptor: int | None = None,
        name: str = "stdin",
        is_recording: bool = False,
        stated: Stated = NOTHING,
        lines_before: int | None = None,
    ):
        self.name = name
        self.has_ended = False
        self.fault = f"{name}: empty: no line to read"
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._host = host.encode()
        self._is_recording = is_recording
        self._zone = stated.zone
        self._origin = stated.over(Origin(job=OF_A_LOG + name, log=name))
        self._cutter = LineCutter(lines_before=lines_before)

    def read(self, now_ns: int) -> Batch | None:
        """The lines that have come, numbered from 1."""
        lines = Lines((), []) if self.has_ended else self._lines()
        if not lines.numbers:
            return None
        return Batch(
            source=self.name,
            values=lines.values,
            keys=Repeated(self._host, lines.values),
            received_ns=Repeated(now_ns, lines.values),
            offsets=lines.numbers,
            is_recorded=self._is_recording,
            is_text=True,
            origin=self._origin,
            is_recording=self._is_recording,
            zone=self._zone,
        )

    @property
    def lines(self) -> int:
        """How many lines have ended."""
        return self._cutter.lines

    def position(self, first_buffered: int | None) -> None:
        """None: what went through a pipe is gone."""

    def close(self) -> None:
        """Nothing to close: the descriptor belongs to the caller."""

    def _lines(self) -> Lines:
        if not select([self._descriptor], [], [], 0)[0]:
            return Lines((), [])
        chunk = os.read(self._descriptor, READ_BYTES)
        if self.fault and chunk.strip(BLANKS):
            fault = fault_of(chunk)
            self.fault = f"{self.name}: {fault}" if fault else ""
            chunk = b"" if fault else chunk
        self.has_ended = not chunk
        return self._cutter.cut(chunk) if chunk else self._cutter.end()
