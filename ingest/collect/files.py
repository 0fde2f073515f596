"""Log files: read to the end, or followed as they grow, through rotation and truncation."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.columns import Repeated
from epicenter.ingest.collect.growing_file import MARK_BYTES, GrowingFile
from epicenter.ingest.collect.lines import LineCutter, Lines
from epicenter.ingest.collect.open_files import OpenFiles
from epicenter.ingest.collect.positions import FilePosition, Positions
from epicenter.ingest.parse.envelope import stated_cluster
from epicenter.ingest.provenance.clocks import Clock, clock_of
from epicenter.ingest.provenance.day_first import day_first
from epicenter.ingest.provenance.first_lines import HEAD_BYTES, text_of, text_of_ends, with_first_lines
from epicenter.ingest.provenance.log_file import is_converted, open_log, read_bytes, read_fault, utf8_text
from epicenter.ingest.provenance.namesakes import Uptime, uptimes
from epicenter.ingest.provenance.path import origin_of
from epicenter.ingest.provenance.stated import NOTHING, Stated
from epicenter.rules.errors import InputError
from epicenter.rules.model.records import Origin
from epicenter.rules.model.times import NS_PER_S

READ_BYTES: Final = 4 << 20
ROTATES_WITHIN_NS: Final = 10 * NS_PER_S
MAX_INSPECTED: Final = 3
"""So many first lines are read for the name of a cluster."""


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

    A followed file may come, go, and be closed between two reads. `open_files` bounds how many are open, `start` is up
    to where it was read before.
    """

    def __init__(
        self,
        path: Path,
        host: str,
        follow: bool,
        root: Path | None = None,
        stated: Stated = NOTHING,
        open_files: OpenFiles | None = None,
        start: FilePosition | None = None,
    ):
        self.name = stated.shown(utf8_text(str(path)))
        self.has_ended = False
        self.fault = ""
        self._path = path
        self._host = host.encode()
        self._follow = follow
        self._is_recording = not (host or follow)
        self._cutter = LineCutter(lines_before=start.lines if start and start.offset_bytes else None)
        self._positions = Positions(start)
        self._first_line = start.first_line if start else 1
        self._stated = stated
        self.cluster_beside = ""
        self.day_first_beside: bool | None = None
        self.zone = stated.zone
        by_path = origin_of(Path(utf8_text(str(path))), Path(utf8_text(str(root or path))), stated.log_names)
        self.by_path = msgspec.structs.replace(by_path, log=self.name)
        self._origin, self._inspected_bytes = self.by_path, -1
        self._is_named = root is None
        self._missing_since_ns = 0
        if follow:
            self._growing = GrowingFile(path, open_files or OpenFiles(), start)
            with suppress(OSError):
                self._growing.descriptor()
        else:
            self._file = open_log(path)

    def read(self, now_ns: int) -> Batch | None:
        """The next lines, numbered from 1.

        Raises:
            OSError: a followed file can't be read now.
            InputError: the same, because it is no log that can grow; or one that the user named is missing.
        """
        is_recorded = not self._follow or self._growing.offset_bytes < self._growing.found_bytes
        lines = self._followed_lines(now_ns) if self._follow else self._lines(now_ns)
        return self._batch(lines, now_ns, is_recorded) if lines.numbers else None

    def _batch(self, lines: Lines, now_ns: int, is_recorded: bool) -> Batch:
        return Batch(
            source=self.name,
            values=lines.values,
            keys=Repeated(self.host.encode(), lines.values),
            received_ns=Repeated(now_ns, lines.values),
            offsets=lines.numbers,
            is_recorded=is_recorded,
            is_text=True,
            origin=self.origin,
            is_recording=self._is_recording,
            zone=self.zone,
        )

    def paths(self) -> set[Path]:
        """Its path, and that of the file that it leads to now."""
        return {self._path, Path(os.path.realpath(self._path))}

    def position(self, first_buffered: int | None) -> FilePosition | None:
        """Up to where a followed file was read; with a first buffered line, up to before that.

        None before the file was found, and where the position of a buffered line was given up.
        """
        if first_buffered is not None:
            return self._positions.before(first_buffered)
        return self._positions.newest() or (FilePosition(self._growing.inode) if self._growing.inode else None)

    @property
    def origin(self) -> Origin:
        """Whose lines it holds, as far as they don't say it themselves."""
        return msgspec.structs.replace(self._origin, cluster=self.cluster_beside)

    @property
    def host(self) -> str:
        """Where lines come from that name no node."""
        return "" if self._origin.is_of_a_job else self._host.decode()

    @property
    def is_behind(self) -> bool:
        """Whether another file has taken the place of the one that is read."""
        return self._follow and self._growing.is_behind

    @property
    def lost_bytes(self) -> int:
        """How much was removed before it was read, as far as that is known."""
        return self._growing.lost_bytes if self._follow else 0

    @property
    def is_plain(self) -> bool:
        """Whether it can be read in parts: its text is the bytes of the file."""
        return not (self._follow or self._is_converted)

    def inspect_ends(self, now_ns: int) -> None:
        """Find out whose lines the parts hold."""
        try:
            self._set_origin(text_of_ends(self._descriptor()), now_ns)
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
        return None if self._is_converted else day_first(text_of_ends(self._descriptor()))

    def clock(self, now_ns: int) -> Clock | None:
        """When its first and last lines were written, and what they show of the zone."""
        if self._is_converted:
            return None
        return clock_of(text_of_ends(self._descriptor()), now_ns, self.by_path, self._stated.zone)

    def uptimes(self, now_ns: int) -> dict[str, Uptime]:
        """The uptime of each machine whose kernel's lines are among its first and last ones."""
        if self._is_converted:
            return {}
        return uptimes(text_of_ends(self._descriptor()), self.by_path, now_ns, self.zone)

    def clusters(self) -> set[str]:
        """The clusters that its first lines name."""
        if self._is_converted:
            return set()
        head = os.pread(self._descriptor(), HEAD_BYTES, 0).split(b"\n")[:MAX_INSPECTED]
        return set(filter(None, map(stated_cluster, head)))

    def size_bytes(self) -> int:
        """The size of the file on disk."""
        return os.fstat(self._descriptor()).st_size

    def read_bytes(self) -> int:
        """How much of it was read."""
        return self._growing.offset_bytes if self._follow else read_bytes(self._file)

    def close(self) -> None:
        """Close the file."""
        (self._growing if self._follow else self._file).close()

    @property
    def _is_converted(self) -> bool:
        return not self._follow and is_converted(self._file)

    def _descriptor(self) -> int:
        return self._growing.descriptor() if self._follow else self._file.fileno()

    def _inspect_head(self, chunk: bytes, now_ns: int) -> None:
        """Find out whose lines they are, again as long as the first lines come in."""
        read_bytes = self._growing.offset_bytes if self._follow else self._file.tell()
        if self._inspected_bytes < min(read_bytes, HEAD_BYTES):
            is_other = self._is_converted
            self._inspected_bytes = HEAD_BYTES if is_other else read_bytes
            ends = text_of(chunk[:HEAD_BYTES]) if is_other else text_of_ends(self._descriptor())
            self._set_origin(ends, now_ns)

    def _set_origin(self, ends: str, now_ns: int) -> None:
        by_path = msgspec.structs.replace(self.by_path, is_day_first=self.day_first_beside)
        self._origin = self._stated.over(with_first_lines(by_path, ends, now_ns, self.zone))

    def _lines(self, now_ns: int) -> Lines:
        chunk = self._read(now_ns)
        if chunk:
            return self._cutter.cut(chunk)
        self.has_ended = True
        return self._cutter.end()

    def _read(self, now_ns: int) -> bytes:
        try:
            chunk = self._file.read1(READ_BYTES)
            self._inspect_head(chunk, now_ns)
        except OSError as error:
            self.record_fault(error)
            return b""
        return chunk

    def _followed_lines(self, now_ns: int) -> Lines:
        while not (chunk := self._growing.read(READ_BYTES)) and self._growing.turn_to_next():
            last, self._cutter = self._cutter.end(), LineCutter()
            self._inspected_bytes, self._first_line = -1, 1
            self._positions.append(FilePosition(self._growing.inode))
            if last.numbers:
                return last
        if not chunk:
            self._check_missing(now_ns)
            return Lines((), [])
        with suppress(OSError, InputError):
            self._inspect_head(chunk, now_ns)
        if not self._positions:
            self._positions.append(FilePosition(self._growing.inode))
        lines = self._cutter.cut(chunk)
        self._record_position(chunk)
        return self._without_skipped(lines)

    def _without_skipped(self, lines: Lines) -> Lines:
        """The lines without those that were processed before a restart."""
        if not lines.numbers or lines.numbers[0] >= self._first_line:
            return lines
        first = bisect_left(lines.numbers, self._first_line)
        return Lines(lines.numbers[first:], lines.values[first:])

    def _record_position(self, chunk: bytes) -> None:
        """Record where the newest whole line ends, unless lines before it wait for their rest."""
        waiting_bytes = self._cutter.waiting_bytes
        if waiting_bytes is None or waiting_bytes >= len(chunk):
            return
        complete = chunk[: len(chunk) - waiting_bytes]
        end_bytes = self._growing.offset_bytes - waiting_bytes
        mark = complete[-MARK_BYTES:]
        position = FilePosition(self._growing.inode, end_bytes, self._cutter.lines, mark)
        self._positions.append(position)
        self._growing.remember(position)

    def _check_missing(self, now_ns: int) -> None:
        """Complain about a file that the user named, once it is missing for longer than a rotation takes."""
        if not (self._is_named and self._growing.is_missing):
            self._missing_since_ns = 0
        elif not self._missing_since_ns:
            self._missing_since_ns = now_ns
        elif now_ns - self._missing_since_ns >= ROTATES_WITHIN_NS:
            raise InputError(f"{self.name}: no such file any more")
