"""The systemd journal of this machine, through `journalctl -o json`."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from tempfile import TemporaryFile
from time import time_ns
from typing import Final

import orjson

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.pipe import PipeSource
from epicenter.ingest.collect.positions import JournalPosition, Positions
from epicenter.rules.errors import InputError
from epicenter.rules.model.times import NS_PER_S

JOURNAL: Final = "journal"
COMMAND: Final = ("journalctl", "-o", "json", "--no-pager")
MAX_REASON_BYTES: Final = 500


class JournalSource:
    """Entries of the current boot, or new ones as they come, each as journald's own JSON.

    Where journalctl ends while it is followed, the next read starts another one, after the last entry. `start` is the
    last entry that was read before.
    """

    def __init__(self, follow: bool, start: JournalPosition | None = None):
        self._follow = follow
        self._positions = Positions(start)
        self._first_line = start.first_line if start else 1
        self._cursor = start.cursor if start else ""
        self._lines = start.lines if start else 0
        self._begins_ns: int | None = None
        self.name = JOURNAL
        self.fault = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    @staticmethod
    def is_readable() -> bool:
        """Whether there is a journal with at least one entry that this user may read."""
        if not shutil.which("journalctl"):
            return False
        probe = [*COMMAND, "--lines=1"]
        return bool(subprocess.run(probe, capture_output=True, check=False).stdout.startswith(b"{"))

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can come."""
        return not self._follow and self._pipe.has_ended

    def read(self, now_ns: int) -> Batch | None:
        """The entries that have come.

        Raises:
            InputError: journalctl ended while it was followed.
            OSError: it can't be started.
        """
        if self._process is None:
            self._start()
        batch = self._pipe.read(now_ns)
        if self._pipe.has_ended and self._follow:
            self._end()
        elif batch and self._follow:
            self._cursor = _cursor_of(batch.values[len(batch) - 1]) or self._cursor
            self._lines = self._pipe.lines
            self._positions.append(JournalPosition(self._cursor, self._lines))
            return self._without_skipped(batch)
        return batch

    def position(self, first_buffered: int | None) -> JournalPosition | None:
        """The last entry that was read, or the last one before the first buffered line; None before the first."""
        return self._positions.newest() if first_buffered is None else self._positions.before(first_buffered)

    def _without_skipped(self, batch: Batch) -> Batch | None:
        """The batch without the lines that were processed before a restart."""
        skipped = max(0, self._first_line - batch.offsets[0])
        return batch.tail(skipped) if skipped < len(batch) else None

    def close(self) -> None:
        """End journalctl."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._errors.close()

    def _start(self) -> None:
        self._errors = TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen([*COMMAND, *self._what()], stdout=subprocess.PIPE, stderr=self._errors)
        assert self._process.stdout is not None
        self._pipe = PipeSource("", self._process.stdout.fileno(), self.name, lines_before=self._lines)

    def _what(self) -> list[str]:
        if not self._follow:
            return ["--boot"]
        if self._cursor:
            return ["--follow", "--no-tail", f"--after-cursor={self._cursor}"]
        is_first = self._begins_ns is None
        self._begins_ns = self._begins_ns or time_ns()
        return ["--follow", *(["--lines=0"] if is_first else ["--no-tail", f"--since=@{self._begins_ns // NS_PER_S}"])]

    def _end(self) -> None:
        """Say why it ended. An entry that was cut off comes again after the last whole one."""
        assert self._process is not None
        code = self._process.wait()
        self._errors.seek(0)
        reason = self._errors.read(MAX_REASON_BYTES).decode("utf-8", "replace").strip().partition("\n")[0]
        self._errors.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        raise InputError(f"{self.name}: journalctl ended with code {code}" + (f": {reason}" if reason else ""))


def _cursor_of(entry: bytes) -> str:
    with suppress(orjson.JSONDecodeError):
        fields = orjson.loads(entry)
        return str(fields.get("__CURSOR", "")) if isinstance(fields, dict) else ""
    return ""
