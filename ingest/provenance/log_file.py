"""Opening a log file: text, packed or not, or a journal's export. Anything else is refused with a sentence."""

from __future__ import annotations

import os
import re
from io import BufferedReader
from pathlib import Path
from typing import Final

from epicenter.ingest.provenance.journal_export import FIRST_FIELDS, JournalExport
from epicenter.ingest.provenance.packed import DECOMPRESSORS, Unpacked, unpacked
from epicenter.rules.errors import InputError

HEAD_BYTES: Final = 8 << 10
MAX_CONTROL_SHARE: Final = 0.1
_PACKED: Final = {magic: name for magic, (name, _) in DECOMPRESSORS.items()} | {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x04\x22\x4d\x18": "lz4",
}
_TAR_MARK, _TAR_MARK_AT = b"ustar", 257
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
BLANKS: Final = b"\0 \t\r\n"
_ZEROS: Final = re.compile(rb"\0+")
_CONTROLS: Final = bytes(code for code in range(32) if code not in b"\t\n\r\b\f\x1b")


def check_is_log(file: Path) -> bool:
    """Check that the file can be read and holds text; whether there is any. Rotation may leave zeros at its beginning.

    Raises:
        InputError: why it can't be read, in a sentence.
    """
    head = _first_bytes(file)
    if fault := fault_of(head):
        raise InputError(f"{file}: {fault}")
    return bool(head)


def _first_bytes(file: Path) -> bytes:
    """The first bytes of the text, from the first one that is neither blank nor zero; empty if there is none."""
    try:
        with open_log(file) as opened:
            while chunk := opened.read1(HEAD_BYTES):
                if text := chunk.lstrip(BLANKS):
                    return text
    except OSError as error:
        raise InputError(f"{file}: {read_fault(error)}") from error
    return b""


def open_log(file: Path) -> BufferedReader:
    """The text of a log file, unpacked as it is read if it is packed; a journal's export as lines of JSON.

    Raises:
        InputError: it can't be opened.
    """
    if file.is_symlink() and not file.exists():
        raise InputError(f"{file}: broken link: no such log file")
    if file.exists() and not file.is_file() and not file.is_dir():
        raise InputError(f"{file}: not a regular file: pipe it in, with - as PATH")
    try:
        text = unpacked(file.open("rb"))
        return JournalExport(text) if text.peek(HEAD_BYTES).startswith(FIRST_FIELDS) else text
    except OSError as error:
        raise InputError(f"{file}: {read_fault(error)}") from error


def is_converted(file: BufferedReader) -> bool:
    """Whether its text is another than the bytes of the file."""
    return isinstance(file, Unpacked | JournalExport)


def read_bytes(file: BufferedReader) -> int:
    """How much of the file on disk was read, of a packed one in its packed size."""
    return os.lseek(file.fileno(), 0, os.SEEK_CUR)


def utf8_text(name: str) -> str:
    """The name of a file, or a sentence with one, in which bytes that are no UTF-8 are escaped, as in `a\\xff.log`."""
    return name if name.isprintable() else os.fsencode(name).decode("utf-8", "backslashreplace")


def read_fault(error: OSError) -> str:
    """Why reading a file failed, in words."""
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    return f"can't be read: {os.strerror(error.errno)}" if error.errno else str(error)


def fault_of(head: bytes) -> str:
    """Why the first bytes of a file are not those of a log, in words; empty if they are.

    Zeros and blanks at the beginning don't count.
    """
    head = head.lstrip(BLANKS)
    if packed := next((name for magic, name in _PACKED.items() if head.startswith(magic)), ""):
        return f"packed with {packed}: unpack it first"
    if head[_TAR_MARK_AT:].startswith(_TAR_MARK):
        return "a tar archive: unpack it first"
    if head.startswith(_UTF_16) or _has_every_other_zero(head):
        return "UTF-16 text: convert it first: iconv -f UTF-16 -t UTF-8"
    return "a binary file, not a log: give the log as text" if _is_binary(head) else ""


def growing_fault_of(head: bytes) -> str:
    """As `fault_of`, for a log that is read while it grows."""
    packed = next((name for magic, (name, _) in DECOMPRESSORS.items() if head.startswith(magic)), "")
    what = f"packed with {packed}" if packed else "a journal's export" if head.startswith(FIRST_FIELDS) else ""
    return f"{what}, so it can't grow: read it with --once" if what else fault_of(head)


def _is_binary(head: bytes) -> bool:
    """Whether it has many control characters, or zeros and others: PyTorch ends messages of its data loader
    with a zero (torch/csrc/DataLoader.cpp), and a crash leaves a hole of them.
    """
    head = _ZEROS.sub(b"\0", head)
    controls = len(head) - len(head.translate(None, _CONTROLS))
    zeros = head.count(0)
    return controls > MAX_CONTROL_SHARE * len(head) or 0 < zeros < controls


def _has_every_other_zero(head: bytes) -> bool:
    """Whether the bytes look like UTF-16 of Latin letters without a mark at the beginning."""
    pairs = len(head) // 2
    zeros = (head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0))
    return pairs >= 4 and min(zeros) == 0 and max(zeros) > 0.8 * pairs
