"""Both ends of a log file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from epicenter.ingest.provenance.last_lines import HEAD_BYTES, check_is_text, last_lines
from epicenter.rules.errors import InputError

TEXTS = {
    "empty": b"",
    "ascii": b"one\ntwo\n",
    "utf-8": "schön ━━ 日本\n".encode(),
    "latin-1": "schön wär's\n".encode("latin-1") * 40,
    "colours": b"\x1b[31mred\x1b[0m\n" * 40,
    "a-hole-left-by-rotation": b"\0" * 5000 + b"one\ntwo\n",
    "a-hole-longer-than-the-head": b"\0" * (HEAD_BYTES + 1),
    "binary-later-on": b"text\n" * HEAD_BYTES + b"\0\1\2\3" * 100,
}


@pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS)
def test_text_in_any_encoding_is_a_log(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(content)
    check_is_text(tmp_path / "a.log")


BINARIES = {
    "elf": (b"\x7fELF\x02\x01\x01\0\0\0\0\0", "a binary file, not a log"),
    "utf-16": ("\ufeffa line\n".encode("utf-16-le"), "a binary file, not a log"),
    "controls": (bytes(range(1, 32)) * 20, "a binary file, not a log"),
    "gzip": (gzip.compress(b"a line\n"), "packed with gzip: unpack it first"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04", "packed with zstd: unpack it first"),
}


@pytest.mark.parametrize(("content", "expected"), BINARIES.values(), ids=BINARIES)
def test_a_file_that_is_no_text_is_refused(content: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(content)
    with pytest.raises(InputError) as raised:
        check_is_text(tmp_path / "a.log")
    assert str(raised.value).startswith(f"{tmp_path}/a.log: {expected}")


ENDS = {
    "whole": (b"one\ntwo\n", (("one", "two"), False)),
    "torn": (b"one\ntw", (("one", "tw"), True)),
    "torn-character": ("one\nschö".encode()[:-1], (("one", "sch\ufffd"), True)),
    "blank-lines": (b"one\n\n  \n", (("one",), False)),
    "empty": (b"", ((), False)),
    "many": (b"".join(b"%d\n" % number for number in range(9)), (("4", "5", "6", "7", "8"), False)),
    "unusual-line-separators": ("one\u2028still\x85one\n".encode(), (("one\u2028still\x85one",), False)),
}


@pytest.mark.parametrize(("content", "expected"), ENDS.values(), ids=ENDS)
def test_the_last_lines_of_a_file_are_read_whole(
    content: bytes, expected: tuple[tuple[str, ...], bool], tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_bytes(content)
    assert last_lines(tmp_path / "a.log") == expected


def test_of_a_large_file_only_the_end_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x" * 100_000 + b"\nlast\n")
    lines, is_cut_off = last_lines(tmp_path / "a.log")
    assert (lines[-1], is_cut_off, len(lines)) == ("last", False, 2)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.log: can't be read: No such file or directory"):
        last_lines(tmp_path / "missing.log")
