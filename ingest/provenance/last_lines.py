"""The last lines of a log file, and whether it was cut off within one."""

from __future__ import annotations

import os
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Final

from epicenter.ingest.provenance.log_file import is_converted, open_log, read_fault
from epicenter.rules.errors import InputError

TAIL_BYTES: Final = 16 << 10
TAIL_LINES: Final = 5
CHUNK_BYTES: Final = 1 << 20


def last_lines(file: Path) -> tuple[tuple[str, ...], bool]:
    """The last lines that are not blank, oldest first, and whether the file ends without a newline.

    Raises:
        InputError: it can't be read.
    """
    end = _tail(file)
    lines = [line for line in end.decode("utf-8", "replace").split("\n") if line.strip()]
    return tuple(lines[-TAIL_LINES:]), bool(end) and not end.endswith(b"\n")


def _tail(file: Path) -> bytes:
    try:
        with open_log(file) as opened:
            return _converted_tail(opened) if is_converted(opened) else _seek_tail(opened)
    except OSError as error:
        raise InputError(f"{file}: {read_fault(error)}") from error


def _seek_tail(opened: BufferedReader) -> bytes:
    opened.seek(max(0, os.fstat(opened.fileno()).st_size - TAIL_BYTES))
    return opened.read(TAIL_BYTES)


def _converted_tail(opened: BufferedReader) -> bytes:
    """Of a compressed file that is damaged, the last bytes before the damage."""
    tail = b""
    with suppress(OSError):
        while chunk := opened.read1(CHUNK_BYTES):
            tail = (tail + chunk)[-TAIL_BYTES:]
    return tail
