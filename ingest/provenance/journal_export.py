"""`journalctl -o export` and systemd-journal-remote, read as the lines of JSON that `journalctl -o json` prints."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from io import BufferedReader
from typing import TYPE_CHECKING, Final

import orjson

from epicenter.ingest.provenance.converted import Converted

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

FIRST_FIELDS: Final = (b"__CURSOR=", b"__REALTIME_TIMESTAMP=")
MAX_ENTRY_BYTES: Final = 64 << 20
"""At most this large is an entry, and what a field states as its size; where one is larger, the export is damaged."""

_SIZE_BYTES: Final = 8


class JournalExport(BufferedReader):
    """The entries of an export (systemd.io/JOURNAL_EXPORT_FORMATS), one a line."""

    def __init__(self, file: BufferedReader):
        super().__init__(_Lines(file))


class _Lines(Converted):
    def __init__(self, file: BufferedReader):
        super().__init__(file)
        self._entries = _entries(file)
        self._rest = b""
        self._fault: OSError | None = None

    def readinto(self, buffer: WriteableBuffer) -> int:
        into = memoryview(buffer).cast("B")
        text = self._at_least(len(into))
        part, self._rest = text[: len(into)], text[len(into) :]
        into[: len(part)] = part
        self._read_bytes += len(part)
        return len(part)

    def _at_least(self, size_bytes: int) -> bytes:
        """What is left of the last entry and the next entries, fewer at the end; what ended them early comes last."""
        text = bytearray(self._rest)
        try:
            while len(text) < size_bytes and (entry := next(self._entries, b"")):
                text += entry
        except OSError as error:
            self._fault = error
        if self._fault and not text:
            raise self._fault
        return bytes(text)


def _entries(file: BufferedReader) -> Iterator[bytes]:
    """Entries end with an empty line. A field is `NAME=text`, or its name, eight bytes of its size, and any bytes."""
    fields: dict[str, str] = {}
    entry_bytes = 0
    while line := file.readline(MAX_ENTRY_BYTES):
        name, mark, value = line.rstrip(b"\n").partition(b"=")
        content = value if mark or not name else _sized(file)
        entry_bytes += len(name) + len(content)
        if entry_bytes >= MAX_ENTRY_BYTES:
            raise _damaged()
        if name:
            fields[name.decode("utf-8", "replace")] = content.decode("utf-8", "replace")
        elif fields:
            yield orjson.dumps(fields) + b"\n"
            fields, entry_bytes = {}, 0
    if fields:
        yield orjson.dumps(fields) + b"\n"


def _sized(file: BufferedReader) -> bytes:
    size_bytes = int.from_bytes(file.read(_SIZE_BYTES), "little")
    if size_bytes > MAX_ENTRY_BYTES:
        raise _damaged()
    value = file.read(size_bytes)
    file.read(1)
    return value


def _damaged() -> OSError:
    return OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))
