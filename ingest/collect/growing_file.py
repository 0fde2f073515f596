"""The bytes of a log as it grows, whatever happens to its path: rotation, truncation, removal, missing rights."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final, NamedTuple

from epicenter.ingest.collect.open_files import OpenFiles
from epicenter.ingest.collect.positions import FilePosition
from epicenter.ingest.collect.rotation import newer_than, path_of
from epicenter.ingest.provenance.log_file import HEAD_BYTES, growing_fault_of
from epicenter.rules.errors import InputError

MARK_BYTES: Final = 64


class _Seen(NamedTuple):
    """What its path leads to."""

    inode: int
    size_bytes: int
    mode: int


_NEVER: Final = _Seen(-1, -1, -1)


class GrowingFile:
    """Reads the file that a path leads to, then the one that takes its place, and so on.

    Its descriptor may be closed between two reads: the file is then found by its inode, wherever a rotation put it.
    `start`: that much was read before. `lost_bytes` of files were removed before they were read.
    """

    def __init__(self, path: Path, open_files: OpenFiles, start: FilePosition | None = None):
        self._path = path
        self._open_files = open_files
        self._place = path
        self._is_begun = start is not None
        self._inode = start.inode if start else 0
        self.offset_bytes = start.offset_bytes if start else 0
        self._checked = start or FilePosition(0)
        self._size_bytes = self.offset_bytes
        self._seen: _Seen | None = None
        self._searched: _Seen | None = _NEVER
        self._is_resumed = start is not None
        self._has_other_content = False
        self.found_bytes = 0
        self.lost_bytes = 0

    @property
    def inode(self) -> int:
        """The number of the file that is read now."""
        return self._inode

    @property
    def is_missing(self) -> bool:
        """Whether its path led nowhere when it was last read."""
        return self._is_begun and self._seen is None

    @property
    def is_behind(self) -> bool:
        """Whether its path led to another file when it was last read, which comes later."""
        return self._seen is not None and not self._is_current

    def read(self, max_bytes: int) -> bytes:
        """The next bytes of the file; none if there are none yet.

        Raises:
            OSError: it can't be read.
            InputError: it is no log that can grow.
        """
        self._look()
        if not self._is_begun:
            self._begin(self._path)
        if self._is_current and self._seen and self._seen.size_bytes <= self.offset_bytes:
            return b""
        if (descriptor := self._found_descriptor()) is None:
            return b""
        if self.offset_bytes == 0 and (fault := _fault_of(descriptor)):
            if not self._is_current:
                return b""
            raise InputError(f"{self._path}: {fault}")
        if self._is_rewritten(descriptor):
            return b""
        chunk = os.pread(descriptor, max_bytes, self.offset_bytes)
        self.offset_bytes += len(chunk)
        self._size_bytes = max(self._size_bytes, self.offset_bytes)
        return chunk

    def turn_to_next(self) -> bool:
        """Go to the file that took the place of this one, once that is read to its end; whether there is one.

        Raises:
            OSError: it can't be read.
            InputError: it is no log that can grow.
        """
        if self._seen is None or (self._is_current and not self._was_cut):
            return False
        newer = [] if self._is_current else newer_than(self._place, self._inode)
        now_at = Path(os.path.realpath(self._path))
        unread = [file for file in newer if file != now_at]
        return any(map(self._try_to_begin, unread)) or self._begin(self._path)

    def descriptor(self) -> int:
        """A descriptor of the file, for a look at its first and last lines.

        Raises:
            OSError: it can't be opened.
            InputError: it is no log that can grow.
        """
        if (held := self._open_files.of(self)) is not None:
            return held
        self._look()
        if not self._is_begun:
            self._begin(self._path)
        if (found := self._found_descriptor()) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._path))
        return found

    def remember(self, position: FilePosition) -> None:
        """Know the file again by this position once its descriptor was closed."""
        self._checked = position

    def close(self) -> None:
        """Close the file."""
        self._open_files.close(self)

    @property
    def _is_current(self) -> bool:
        """Whether its path still leads to the file that is read."""
        return self._seen is not None and self._seen.inode == self._inode and S_ISREG(self._seen.mode)

    @property
    def _was_cut(self) -> bool:
        """Whether the file was emptied after it was read, and perhaps written anew."""
        return self._seen is not None and (self._seen.size_bytes < self.offset_bytes or self._has_other_content)

    def _is_rewritten(self, descriptor: int) -> bool:
        """Whether other bytes are by now where those were that were read last, though the file did not get shorter."""
        mark, end_bytes = self._checked.mark, self._checked.offset_bytes
        self._has_other_content = os.pread(descriptor, len(mark), end_bytes - len(mark)) != mark
        return self._has_other_content

    def _look(self) -> None:
        try:
            status = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            self._seen = None
            return
        self._seen = _Seen(status.st_ino, status.st_size, status.st_mode)
        if self._is_current:
            self._size_bytes = max(self._size_bytes, status.st_size)

    def _try_to_begin(self, path: Path) -> bool:
        """Read a file that was rotated away before it was read; where that fails, it is lost."""
        try:
            return self._begin(path)
        except (OSError, InputError):
            with suppress(OSError):
                self.lost_bytes += path.stat().st_size
            return False

    def _begin(self, path: Path) -> bool:
        """Read this file from its beginning; false if it was moved meanwhile."""
        try:
            descriptor = self._opened(path)
        except FileNotFoundError:
            if self._is_begun:
                return False
            raise
        with _closed_on_error(descriptor):
            if fault := _fault_of(descriptor):
                raise InputError(f"{self._path}: {fault}")
            status = os.fstat(descriptor)
        self._open_files.keep(self, descriptor)
        if path == self._path:
            self._place = Path(os.path.realpath(path))
        self._is_begun, self._inode, self.offset_bytes = True, status.st_ino, 0
        self.found_bytes = self._size_bytes = status.st_size
        self._checked, self._searched, self._has_other_content = FilePosition(status.st_ino), _NEVER, False
        return True

    def _opened(self, path: Path) -> int:
        mode = path.stat().st_mode
        if not S_ISREG(mode):
            what = "a folder is in its place" if S_ISDIR(mode) else "not a regular file: pipe it in, with - as PATH"
            raise InputError(f"{self._path}: {what}")
        return self._open_files.open(path)

    def _found_descriptor(self) -> int | None:
        """The descriptor, opened again where it was closed; None if the file is gone."""
        if (descriptor := self._open_files.of(self)) is not None:
            return descriptor
        if self._searched == self._seen:
            return None
        path = self._path if self._is_current else path_of(self._place, self._inode)
        try:
            descriptor = self._known_again(path) if path else None
        except FileNotFoundError:
            return None
        except PermissionError:
            if path is None or self._is_current:
                raise
            self._size_bytes, descriptor = max(self._size_bytes, path.stat().st_size), None
        if descriptor is None:
            self._lose_rest()
        else:
            self._open_files.keep(self, descriptor)
        return descriptor

    def _known_again(self, path: Path) -> int | None:
        """Its descriptor if the file at the path is the one that was read."""
        descriptor, known = self._opened(path), self._checked
        with _closed_on_error(descriptor):
            mark = os.pread(descriptor, len(known.mark), known.offset_bytes - len(known.mark))
            status = os.fstat(descriptor)
        if mark != known.mark or status.st_ino != self._inode:
            os.close(descriptor)
            return None
        if self._is_resumed:
            self.found_bytes, self._is_resumed = status.st_size, False
        return descriptor

    def _lose_rest(self) -> None:
        """The file is gone, or another one has its number: what was seen of it, and not read, is lost."""
        self.lost_bytes += max(0, self._size_bytes - self.offset_bytes) if not self._is_current else 0
        self._size_bytes = self.offset_bytes
        self._searched = self._seen
        if self._is_current:
            self._inode = -1


@contextmanager
def _closed_on_error(descriptor: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        os.close(descriptor)
        raise


def _fault_of(descriptor: int) -> str:
    return growing_fault_of(os.pread(descriptor, HEAD_BYTES, 0))
