"""Log files: read to the end, or followed as they grow, through rotation and truncation."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.columns import Repeated
from epicenter.ingest.collect.by_content import begins_like_a_log
from epicenter.ingest.collect.lines import LineCutter, Lines
from epicenter.ingest.parse.envelope import stated_cluster
from epicenter.ingest.provenance.clocks import Clock, clock_of
from epicenter.ingest.provenance.day_first import day_first
from epicenter.ingest.provenance.first_lines import HEAD_BYTES, text_of, text_of_ends, with_first_lines
from epicenter.ingest.provenance.log_file import is_converted, open_log, read_bytes, read_fault
from epicenter.ingest.provenance.log_names import PACKED, ROTATION
from epicenter.ingest.provenance.namesakes import Uptime, uptimes
from epicenter.ingest.provenance.packed import Unpacked
from epicenter.ingest.provenance.path import origin_of
from epicenter.ingest.provenance.stated import NOTHING, Stated
from epicenter.rules.errors import InputError

READ_BYTES: Final = 4 << 20
MAX_INSPECTED: Final = 3
"""So many first lines are read for the name of a cluster."""

LOG_SUFFIXES: Final = (
    *(".log", ".out", ".err", ".stdout", ".stderr", ".txt", ".jsonl", ".ndjson"),
    *(".dmesg", ".kern", ".kmsg", ".syslog", ".messages"),
)
_PACKED = re.compile(f"{PACKED}$")
_ROTATED = re.compile(f"{ROTATION}$")
MAX_NUMBER_DIGITS: Final = 6
"""A rotation with more digits is a date, in which later ones are newer."""

_OUTPUT_OF_PBS = re.compile(r"\.(?:po|pe|o|e)\d{1,10}(?:[.-]\d{1,6})?$")
"""What PBS and Grid Engine append to a job's name: `llama.o7877`."""


def log_files(folder: Path, on_error: Callable[[OSError], None] | None = None) -> Iterator[Path]:
    """The files below a folder that are logs by their names or first lines, in order; rotated and packed ones too."""
    return (file for file in files_in(folder, on_error) if is_log(file.name) or begins_like_a_log(file))


def files_in(folder: Path, on_error: Callable[[OSError], None] | None = None) -> Iterator[Path]:
    """All files below a folder but hidden ones, in order, rotated ones oldest first, broken links too."""
    walked = os.walk(folder, onerror=on_error)
    files = sorted(
        (Path(at, name) for at, _, names in walked for name in names if not name.startswith(".")), key=_oldest_first
    )
    return (file for file in files if file.is_file() or (file.is_symlink() and not file.exists()))


def is_log(name: str) -> bool:
    """Whether a file's name is that of a log: `a.log`, `syslog`, `a.log.1`, `messages-20260301.gz`, `llama.o7877`."""
    unpacked = unpacked_name(name)
    original = _ROTATED.sub("", unpacked)
    is_bare = Path(original).suffix == "" and (unpacked == name or original != unpacked)
    return Path(original).suffix in LOG_SUFFIXES or is_bare or bool(_OUTPUT_OF_PBS.search(unpacked))


def unpacked_name(name: str) -> str:
    """The name without the ending of a packed file."""
    return _PACKED.sub("", name)


def is_packed(file: Path) -> bool:
    """Whether a file's name is that of a compressed one."""
    return bool(_PACKED.search(file.name))


def unrotated(file: Path) -> Path:
    """The file whose older lines are here: `a.log` for `a.log.1` and `a.log.2.gz`; any other file is itself."""
    return file.with_name(_ROTATED.sub("", unpacked_name(file.name)))


def _oldest_first(file: Path) -> tuple[Path, bool, int, Path]:
    """A key that puts `a.log.10.gz`, `a.log.2`, `a.log-20260301`, `a.log` in this order."""
    rotation = _ROTATED.search(unpacked_name(file.name))
    number = rotation[0][1:].replace("-", "") if rotation else "0"
    is_date = len(number) > MAX_NUMBER_DIGITS
    return unrotated(file), not rotation, int(number.ljust(14, "0")) if is_date else -int(number), file


class Part(NamedTuple):
    """A part of a plain file, from the beginning of a line to the end of one."""

    source: str
    start: int
    end: int
    is_last: bool


class FileSource:
    """One log file. A line without a newline waits for its end, unless the file is read once only.

    Its content when it was found is older than that; what is added later is new. Whose lines they are follows from its
    path below `root` (itself, or a folder above it), and from its first lines, as far as they have come. `host` is
    where lines come from that name no node, unless all tasks of a job write into the file. Without a host, and read
    once, they are a recording: the time of reading says nothing about them. `fault` is why its end could not be read,
    in a sentence; empty if it could. `stated` is what the user says about its lines. `cluster_beside` is
    that of lines that name none, as other files show it, `day_first_beside` how those write dates, `zone` that of times
    that name none.
    """

    def __init__(self, path: Path, host: str, follow: bool, root: Path | None = None, stated: Stated = NOTHING):
        self.name = stated.shown(str(path))
        self.has_ended = False
        self.fault = ""
        self._path = path
        self._host = host.encode()
        self._follow = follow
        self._is_recording = not (host or follow)
        self._cutter = LineCutter()
        self._stated = stated
        self.cluster_beside = ""
        self.day_first_beside: bool | None = None
        self.zone = stated.zone
        by_path = origin_of(path, root or path, stated.log_names)
        self.by_path = msgspec.structs.replace(by_path, log=self.name)
        self._origin, self._inspected_bytes = self.by_path, -1
        self._file = self._open()

    def read(self, now_ns: int) -> Batch | None:
        """The next lines, numbered from 1."""
        is_recorded = not self._follow or self._file.tell() < self._found_bytes
        lines = self._lines(now_ns)
        return self._batch(lines, now_ns, is_recorded) if lines.numbers else None

    def _batch(self, lines: Lines, now_ns: int, is_recorded: bool) -> Batch:
        host = b"" if self._origin.is_of_a_job else self._host
        return Batch(
            source=self.name,
            values=lines.values,
            keys=Repeated(host, lines.values),
            received_ns=Repeated(now_ns, lines.values),
            offsets=lines.numbers,
            is_recorded=is_recorded,
            is_text=True,
            origin=msgspec.structs.replace(self._origin, cluster=self.cluster_beside),
            is_recording=self._is_recording,
            zone=self.zone,
        )

    @property
    def is_plain(self) -> bool:
        """Whether it can be read in parts: its text is the bytes of the file."""
        return not (self._follow or is_converted(self._file))

    def inspect_ends(self, now_ns: int) -> None:
        """Find out whose lines the parts hold."""
        try:
            self._set_origin(text_of_ends(self._file.fileno()), now_ns)
        except OSError as error:
            self.record_fault(error)

    def record_fault(self, error: OSError) -> None:
        """Say why the rest of the file could not be read."""
        self.fault = f"{self.name}: {read_fault(error)}: only the lines before that were read"

    def parts(self, part_bytes: int) -> Iterator[Part]:
        """Its parts, each a little longer than `part_bytes`; what is added meanwhile is in none."""
        start, size_bytes = 0, self.size_bytes()
        while start < size_bytes:
            end = self._line_end(start + part_bytes, size_bytes)
            yield Part(self.name, start, end, is_last=end == size_bytes)
            start = end

    def read_part(self, part: Part, cutter: LineCutter, now_ns: int) -> Iterator[Batch]:
        """The lines of a part, as the cutter of the whole file or of this part numbers them.

        Raises:
            OSError: it can't be read.
        """
        for start in range(part.start, part.end, READ_BYTES):
            chunk = os.pread(self._file.fileno(), min(READ_BYTES, part.end - start), start)
            if (lines := cutter.cut(chunk)).numbers:
                yield self._batch(lines, now_ns, is_recorded=True)
        if part.is_last and (lines := cutter.end()).numbers:
            yield self._batch(lines, now_ns, is_recorded=True)

    def skip_to(self, part: Part) -> None:
        """Say that all up to the end of this part was read."""
        os.lseek(self._file.fileno(), part.end, os.SEEK_SET)
        self.has_ended = part.is_last

    def _line_end(self, place: int, size_bytes: int) -> int:
        """The end of the line with the byte before this place; that of the file if it can't be read there."""
        with suppress(OSError):
            while place < size_bytes and (text := os.pread(self._file.fileno(), HEAD_BYTES, place - 1)):
                if (found := text.find(b"\n")) >= 0:
                    return place + found
                place += len(text)
        return size_bytes

    def day_first(self) -> bool | None:
        """Whether its first and last lines write the day before the month; None if they don't show it."""
        return None if is_converted(self._file) else day_first(text_of_ends(self._file.fileno()))

    def clock(self, now_ns: int) -> Clock | None:
        """When its first and last lines were written, and what they show of the zone."""
        if is_converted(self._file):
            return None
        return clock_of(text_of_ends(self._file.fileno()), now_ns, self.by_path, self._stated.zone)

    def uptimes(self, now_ns: int) -> dict[str, Uptime]:
        """The uptime of each machine whose kernel's lines are among its first and last ones."""
        if is_converted(self._file):
            return {}
        return uptimes(text_of_ends(self._file.fileno()), self.by_path, now_ns, self.zone)

    def clusters(self) -> set[str]:
        """The clusters that its first lines name."""
        if is_converted(self._file):
            return set()
        head = os.pread(self._file.fileno(), HEAD_BYTES, 0).split(b"\n")[:MAX_INSPECTED]
        return set(filter(None, map(stated_cluster, head)))

    def size_bytes(self) -> int:
        """The size of the file on disk."""
        return os.fstat(self._file.fileno()).st_size

    def read_bytes(self) -> int:
        """How much of it was read."""
        return read_bytes(self._file)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _inspect_head(self, chunk: bytes, now_ns: int) -> None:
        """Find out whose lines they are, again as long as the first lines come in."""
        read_bytes = self._file.tell()
        if self._inspected_bytes < min(read_bytes, HEAD_BYTES):
            is_other = is_converted(self._file)
            self._inspected_bytes = HEAD_BYTES if is_other else read_bytes
            ends = text_of(chunk[:HEAD_BYTES]) if is_other else text_of_ends(self._file.fileno())
            self._set_origin(ends, now_ns)

    def _set_origin(self, ends: str, now_ns: int) -> None:
        by_path = msgspec.structs.replace(self.by_path, is_day_first=self.day_first_beside)
        self._origin = self._stated.over(with_first_lines(by_path, ends, now_ns, self.zone))

    def _lines(self, now_ns: int) -> Lines:
        chunk = self._read(now_ns)
        if not chunk and self._was_replaced():
            last = self._cutter.end()
            if last.numbers:
                return last
            self._file.close()
            self._file, self._cutter, self._inspected_bytes = self._open(), LineCutter(), -1
            chunk = self._read(now_ns)
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

    def _read(self, now_ns: int) -> bytes:
        try:
            chunk = self._file.read1(READ_BYTES)
            self._inspect_head(chunk, now_ns)
        except OSError as error:
            self.record_fault(error)
            return b""
        return chunk

    def _open(self) -> BufferedReader:
        file = open_log(self._path)
        if self._follow and is_converted(file):
            what = f"packed with {file.packed_with}" if isinstance(file, Unpacked) else "a journal's export"
            raise InputError(f"{self._path}: {what}, so it can't grow: read it with --once")
        self._found_bytes = os.fstat(file.fileno()).st_size
        return file
