"""Both ends of a log file: whether it is text, its last lines, and whether it was cut off within one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from epicenter.rules.errors import InputError

HEAD_BYTES: Final = 8 << 10
TAIL_BYTES: Final = 16 << 10
TAIL_LINES: Final = 5
MAX_CONTROL_SHARE: Final = 0.1
_PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
}
_CONTROLS: Final = bytes(code for code in range(32) if code not in b"\t\n\r\b\f\x1b")


def check_is_text(file: Path) -> None:
    """Check a file's first bytes. Zeros at the very beginning are fine: some log rotations leave them.

    Raises:
        InputError: it can't be read, or is not text.
    """
    head = _read(file, 0, HEAD_BYTES).lstrip(b"\0")
    packed = next((name for magic, name in _PACKED.items() if head.startswith(magic)), "")
    if packed:
        raise InputError(f"{file}: packed with {packed}: unpack it first")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if b"\0" in head or controls > MAX_CONTROL_SHARE * len(head):
        raise InputError(f"{file}: a binary file, not a log: give the log as text")


def last_lines(file: Path) -> tuple[tuple[str, ...], bool]:
    """The last lines that are not blank, oldest first, and whether the file ends without a newline.

    Raises:
        InputError: it can't be read.
    """
    end = _read(file, -TAIL_BYTES, TAIL_BYTES)
    lines = [line for line in end.decode("utf-8", "replace").split("\n") if line.strip()]
    return tuple(lines[-TAIL_LINES:]), bool(end) and not end.endswith(b"\n")


def _read(file: Path, start: int, count: int) -> bytes:
    """`count` bytes from `start` on; a negative start counts from the end."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size + start) if start < 0 else start)
            return opened.read(count)
    except OSError as error:
        raise InputError(f"{file}: can't be read: {error.strerror}") from error
