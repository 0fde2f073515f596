"""What is a log and what is not: text, packed or not, and everything else."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import pytest

from epicenter.ingest.provenance.log_file import HEAD_BYTES, check_is_log, open_log
from epicenter.rules.errors import InputError

LINE = "2026-03-02T09:00:00Z node0003 a line\n"
TEXTS = {
    "empty": b"",
    "blank": b"\n  \n\n",
    "packed": gzip.compress(LINE.encode()),
    "ascii": b"one\ntwo\n",
    "utf-8": "schön ━━ 日本\n".encode(),
    "latin-1": "schön wär's\n".encode("latin-1") * 40,
    "colours": b"\x1b[31mred\x1b[0m\n" * 40,
    "a-hole-left-by-rotation": b"\0" * 5000 + b"one\ntwo\n",
    "a-hole-longer-than-the-head": b"\0" * (HEAD_BYTES + 1),
    "a-hole-left-by-a-crash": LINE.encode() + b"\0" * 5000 + LINE.encode(),
    "a-message-that-ends-with-a-zero": b"ERROR: Unexpected bus error encountered in worker. (shm).\n\0" + LINE.encode(),
    "binary-later-on": b"text\n" * HEAD_BYTES + b"\0\1\2\3" * 100,
}


@pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS)
def test_text_in_any_encoding_is_a_log(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(content)
    is_empty = not content.strip(b"\0 \n")
    assert check_is_log(tmp_path / "a.log") is not is_empty


NOT_LOGS = {
    "elf": (b"\x7fELF\x02\x01\x01\0\0\0\0\0", "a binary file, not a log: give the log as text"),
    "random": (Random(7).randbytes(8 * HEAD_BYTES), "a binary file, not a log: give the log as text"),
    "controls": (bytes(range(1, 32)) * 20, "a binary file, not a log: give the log as text"),
    "packed-binary": (gzip.compress(b"\x7fELF\x02\x01\x01\0\0"), "a binary file, not a log: give the log as text"),
    "tar": (b"a.log".ljust(257, b"\0") + b"ustar\00000", "a tar archive: unpack it first"),
    "packed-tar": (gzip.compress(b"a.log".ljust(257, b"\0") + b"ustar"), "a tar archive: unpack it first"),
    "utf-16": (LINE.encode("utf-16"), "UTF-16 text: convert it first: iconv -f UTF-16 -t UTF-8"),
    "utf-16-le": (LINE.encode("utf-16-le"), "UTF-16 text: convert it first: iconv -f UTF-16 -t UTF-8"),
    "utf-16-be": (LINE.encode("utf-16-be"), "UTF-16 text: convert it first: iconv -f UTF-16 -t UTF-8"),
    "zip": (b"PK\x03\x04\x14\0\0\0", "packed with zip: unpack it first"),
    "packed-twice": (gzip.compress(gzip.compress(b"a line\n")), "packed with gzip: unpack it first"),
    "damaged": (b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\xff" * 20, "packed with gzip, and cut off or damaged"),
}


@pytest.mark.parametrize(("content", "expected"), NOT_LOGS.values(), ids=NOT_LOGS)
def test_a_file_that_is_no_log_is_refused_in_a_sentence(content: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(content)
    with pytest.raises(InputError) as raised:
        check_is_log(tmp_path / "a.log")
    assert str(raised.value) == f"{tmp_path}/a.log: {expected}"


def test_a_packed_log_reads_as_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(LINE.encode()) + gzip.compress(LINE.encode()))
    with open_log(tmp_path / "a.log.gz") as opened:
        assert opened.read().decode() == 2 * LINE
