"""The last lines of a log file."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import pytest

from epicenter.ingest.provenance.last_lines import last_lines
from epicenter.rules.errors import InputError

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


@pytest.mark.parametrize("lost_bytes", [0, 400])
def test_the_last_lines_of_a_packed_file_are_read_as_far_as_it_is_whole(tmp_path: Path, lost_bytes: int) -> None:
    seeded = Random(1)
    packed = gzip.compress(
        b"".join(b"%d %s\n" % (number, seeded.randbytes(40).hex().encode()) for number in range(900))
    )
    (tmp_path / "a.log.gz").write_bytes(packed[: len(packed) - lost_bytes])
    lines, is_cut_off = last_lines(tmp_path / "a.log.gz")
    assert lines[-1].startswith("899 ") is not bool(lost_bytes)
    assert is_cut_off is bool(lost_bytes)


def test_of_a_large_file_only_the_end_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x" * 100_000 + b"\nlast\n")
    lines, is_cut_off = last_lines(tmp_path / "a.log")
    assert (lines[-1], is_cut_off, len(lines)) == ("last", False, 2)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.log: no such file or folder"):
        last_lines(tmp_path / "missing.log")
