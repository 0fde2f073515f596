"""Packed logs: every format, in frames, cut off, damaged, and far larger than they look."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from backports import zstd

from epicenter.ingest.collect.files import READ_BYTES, FileSource
from epicenter.ingest.provenance import packed
from epicenter.ingest.provenance.log_file import open_log
from epicenter.ingest.provenance.packed import MAX_RATIO, UnpackingError
from epicenter.rules.errors import InputError

Pack = Callable[[bytes], bytes]


def packed_by_zstd(text: bytes) -> bytes:
    """As its command writes it, with a checksum."""
    return zstd.compress(text, options={zstd.CompressionParameter.checksum_flag: 1})


PACK: dict[str, Pack] = {"gzip": gzip.compress, "zstd": packed_by_zstd, "xz": lzma.compress, "bzip2": bz2.compress}
SKIPPED_FRAME = b"\x50\x2a\x4d\x18\x04\0\0\0" + b"size"
LINES = [
    b"2026-03-02T09:00:%02dZ n1 line %d %s" % (n % 60, n, Random(n).randbytes(30).hex().encode()) for n in range(999)
]
TEXT = b"\n".join(LINES) + b"\n"


def lines_of(file: Path) -> tuple[list[bytes], str]:
    """The lines that are read, and why no more are."""
    source, lines = FileSource(file, "", follow=False), list[bytes]()
    while not source.has_ended:
        if batch := source.read(0):
            lines += batch.values
    source.close()
    return lines, source.fault


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.log"


@pytest.mark.parametrize("pack", PACK.values(), ids=PACK)
def test_a_packed_log_is_known_by_its_content_and_read_like_its_text(pack: Pack, file: Path) -> None:
    file.write_bytes(pack(TEXT))
    assert lines_of(file) == (LINES, "")


@pytest.mark.parametrize("pack", PACK.values(), ids=PACK)
@pytest.mark.parametrize("padding", [b"", b"\0" * 8], ids=["side by side", "zeros between"])
def test_all_frames_are_read_where_a_file_has_several(pack: Pack, padding: bytes, file: Path) -> None:
    parts = [TEXT[:999], TEXT[999:5000], b"", TEXT[5000:]]
    file.write_bytes(padding.join(map(pack, parts)) + padding)
    assert lines_of(file) == (LINES, "")


def test_a_frame_that_is_to_be_skipped_has_no_lines(file: Path) -> None:
    file.write_bytes(SKIPPED_FRAME + zstd.compress(TEXT[:999]) + SKIPPED_FRAME + zstd.compress(TEXT[999:]))
    assert lines_of(file) == (LINES, "")


@pytest.mark.parametrize("name", PACK)
def test_of_a_log_that_is_cut_off_or_still_written_the_lines_before_that_are_read(name: str, file: Path) -> None:
    whole = PACK[name](TEXT[:30_000]) + PACK[name](TEXT[30_000:])
    file.write_bytes(whole[:-20])
    lines, fault = lines_of(file)
    assert len(lines) > 300 and lines[:-1] == LINES[: len(lines) - 1]
    assert fault == f"{file}: packed with {name}, and cut off or damaged: only the lines before that were read"


@pytest.mark.parametrize("name", PACK)
def test_of_a_log_with_damage_in_its_middle_the_lines_before_it_are_read(name: str, file: Path) -> None:
    first, second = PACK[name](TEXT[:30_000]), bytearray(PACK[name](TEXT[30_000:]))
    second[200:260] = b"\xff" * 60
    file.write_bytes(first + second)
    lines, fault = lines_of(file)
    certain = TEXT[:30_000].count(b"\n")
    assert lines[:certain] == LINES[:certain]
    assert fault == f"{file}: packed with {name}, and cut off or damaged: only the lines before that were read"


@pytest.mark.parametrize("name", PACK)
def test_what_follows_the_last_frame_and_is_none_is_named(name: str, file: Path) -> None:
    file.write_bytes(PACK[name](TEXT) + b"not packed, and no zeros")
    assert lines_of(file) == (
        LINES,
        f"{file}: packed with {name}, and cut off or damaged: only the lines before that were read",
    )


@pytest.mark.parametrize("name", PACK)
def test_a_bomb_unpacks_in_pieces_and_ends_at_a_bound(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = 20 << 20
    monkeypatch.setattr(packed, "ANY_RATIO_BYTES", bound)
    file.write_bytes(PACK[name](bytes(64 << 20)))
    pieces: list[int] = []
    with open_log(file) as opened, pytest.raises(UnpackingError, match="unpacks to more than 0 GiB and 200 times"):
        while piece := opened.read1(READ_BYTES):
            pieces.append(len(piece))
    bound = max(bound, MAX_RATIO * file.stat().st_size)
    assert max(pieces) <= READ_BYTES and sum(pieces) <= bound + READ_BYTES


@pytest.mark.parametrize("pack", PACK.values(), ids=PACK)
def test_a_log_that_packs_as_logs_do_may_be_larger_than_the_bound(
    pack: Pack, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "ANY_RATIO_BYTES", 100)
    file.write_bytes(pack(TEXT))
    assert lines_of(file) == (LINES, "")


def test_many_empty_frames_take_no_time(file: Path) -> None:
    file.write_bytes(gzip.compress(b"") * 20_000 + gzip.compress(TEXT))
    assert lines_of(file) == (LINES, "")


def of_a_large_dictionary() -> bytes:
    """An xz file whose header asks for a dictionary of 1.5 GiB."""
    whole = bytearray(lzma.compress(TEXT))
    header = slice(12, 12 + 4 * (whole[12] + 1) - 4)
    whole[16] = 37
    whole[header.stop : header.stop + 4] = zlib.crc32(whole[header]).to_bytes(4, "little")
    return bytes(whole)


def of_a_large_window() -> bytes:
    """A zstd frame whose header asks for a window of 1 GiB, with one block as it is."""
    return b"\x28\xb5\x2f\xfd" + bytes([0, (30 - 10) << 3]) + (len(TEXT) << 3 | 1).to_bytes(3, "little") + TEXT


@pytest.mark.parametrize("content", [of_a_large_dictionary(), of_a_large_window()], ids=["xz", "zstd"])
def test_a_file_that_needs_much_memory_is_refused(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    with pytest.raises(InputError, match="needs more than 256 MiB of memory"):
        open_log(file)


def test_a_gzip_file_with_a_wrong_checksum_is_damaged(file: Path) -> None:
    whole = bytearray(gzip.compress(TEXT))
    whole[-8:-4] = (zlib.crc32(b"other")).to_bytes(4, "little")
    file.write_bytes(whole)
    lines, fault = lines_of(file)
    assert (lines, fault) == (
        LINES,
        f"{file}: packed with gzip, and cut off or damaged: only the lines before that were read",
    )
