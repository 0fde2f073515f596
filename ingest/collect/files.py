"""Log files: read to the end, or followed as they grow, through rotation and truncation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.columns import Repeated
from epicenter.ingest.collect.lines import LineCutter, Lines
from epicenter.ingest.provenance.first_lines import HEAD_BYTES, with_first_lines
from epicenter.ingest.provenance.path import origin_of
from epicenter.rules.errors import InputError

READ_BYTES: Final = 4 << 20
_LOG_SUFFIXES: Final = ("", ".log", ".out", ".err", ".txt", ".jsonl", ".ndjson")


def log_files(folder: Path) -> Iterator[Path]:
    """The files below a folder that look like logs by their names, in order; rotated ones (`.log.1`) too."""
    for file in sorted(folder.rglob("*")):
        name = file.name.rstrip("0123456789").rstrip(".") if file.suffix[1:].isdigit() else file.name
        if file.is_file() and not file.name.startswith(".") and Path(name).suffix in _LOG_SUFFIXES:
            yield file


def unrotated(file: Path) -> Path:
    """The file whose older lines are here: `a.log` for `a.log.1`; any other file is itself."""
    return file.with_suffix("") if file.suffix[1:].isdigit() else file


class FileSource:
    """One log file. A line without a newline waits for its end, unless the file is read once only.

    Its content when it was found is as old as its time of modification; what is added later is new. Whose lines they
    are follows from its path below `root` (itself, or a folder above it), and from its first lines, as far as they
    have come. `host` is where lines come from that name no node, unless all tasks of a job write into the file.
    """

    def __init__(self, path: Path, host: str, follow: bool, root: Path | None = None):
        self.name = str(path)
        self.has_ended = False
        self._path = path
        self._host = host.encode()
        self._follow = follow
        self._cutter = LineCutter()
        self._by_path = origin_of(path, root or path)
        self._origin, self._inspected_bytes = self._by_path, -1
        self._file = self._open()

    def read(self, now_ns: int) -> Batch | None:
        """The next lines, numbered from 1."""
        is_recorded = not self._follow or self._file.tell() < self._found_bytes
        lines = self._lines()
        if not lines.numbers:
            return None
        host = b"" if self._origin.is_of_a_job else self._host
        return Batch(
            source=self.name,
            values=lines.values,
            keys=Repeated(host, lines.values),
            received_ns=Repeated(self._found_ns if is_recorded else now_ns, lines.values),
            offsets=lines.numbers,
            is_recorded=is_recorded,
            is_text=True,
            origin=self._origin,
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _inspect_head(self) -> None:
        """Find out whose lines they are, again as long as the first lines come in."""
        read_bytes = self._file.tell()
        if self._inspected_bytes < min(read_bytes, HEAD_BYTES):
            self._inspected_bytes, self._origin = read_bytes, with_first_lines(self._by_path, self._file.fileno())

    def _lines(self) -> Lines:
        chunk = self._read()
        if not chunk and self._was_replaced():
            last = self._cutter.end()
            if last.numbers:
                return last
            self._file.close()
            self._file, self._cutter, self._inspected_bytes = self._open(), LineCutter(), -1
            chunk = self._read()
        if not chunk and not self._follow:
            self.has_ended = True
            return self._cutter.end()
        return self._cutter.cut(chunk)

    def _was_replaced(self) -> bool:
        if not self._follow:
            return False
        try:
            now = self._path.stat()
        except OSError:
            return False
        return now.st_ino != os.fstat(self._file.fileno()).st_ino or now.st_size < self._file.tell()

    def _read(self) -> bytes:
        try:
            chunk = self._file.read(READ_BYTES)
            self._inspect_head()
            return chunk
        except OSError as error:
            raise InputError(f"{self._path}: can't be read any further: {error.strerror}") from error

    def _open(self) -> BinaryIO:
        try:
            file = self._path.open("rb")
        except OSError as error:
            raise InputError(f"{self._path}: can't be read: {error.strerror}") from error
        found = os.fstat(file.fileno())
        self._found_bytes, self._found_ns = found.st_size, found.st_mtime_ns
        return file
