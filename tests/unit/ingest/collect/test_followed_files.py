"""Followed files that are closed, rotated, replaced and removed between two reads."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from epicenter.ingest.collect.files import ROTATES_WITHIN_NS, FileSource
from epicenter.ingest.collect.open_files import OpenFiles
from epicenter.ingest.collect.positions import FilePosition
from epicenter.ingest.collect.rotation import newer_than, path_of
from epicenter.rules.errors import InputError
from tests.support.logs import START_NS
from tests.support.privileges import without_privileges


def lines(source: FileSource, now_ns: int = START_NS) -> list[tuple[int, bytes]]:
    batch = source.read(now_ns)
    return [(batch.offsets[place], batch.values[place]) for place in range(len(batch))] if batch else []


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_bytes(b"1\n")
    return path


@pytest.fixture
def followed(log: Path) -> tuple[FileSource, FileSource]:
    """Two files of which one may be open: reading the second one closes the first."""
    other = log.with_name("b.log")
    other.write_bytes(b"b\n")
    open_files = OpenFiles(1)
    return tuple(FileSource(path, "", follow=True, open_files=open_files) for path in (log, other))  # type: ignore[return-value]


def test_a_closed_file_continues_where_reading_ended(log: Path, followed: tuple[FileSource, FileSource]) -> None:
    source, other = followed
    append(log, b"2\n3")
    assert lines(source) == [(1, b"1"), (2, b"2")]
    assert lines(other) == [(1, b"b")]
    append(log, b"\n")
    assert lines(source) == [(3, b"3")]


def test_of_a_closed_file_the_rest_is_read_after_two_rotations(
    log: Path, followed: tuple[FileSource, FileSource]
) -> None:
    source, other = followed
    lines(source)
    append(log, b"2\n")
    lines(other)
    log.rename(log.with_name("a.log.2"))
    log.with_name("a.log.1").write_bytes(b"3\n")
    log.write_bytes(b"4\n")
    assert [lines(source) for _ in range(3)] == [[(2, b"2")], [(1, b"3")], [(1, b"4")]]


def test_files_that_are_numbered_upwards_are_not_read_again(log: Path) -> None:
    """Some programs rotate to ever higher numbers: the lower ones are older."""
    for number in (1, 2):
        log.with_name(f"a.log.{number}").write_bytes(b"old\n")
        os.utime(log.with_name(f"a.log.{number}"), ns=(0, number))
    source = FileSource(log, "", follow=True)
    lines(source)
    log.rename(log.with_name("a.log.3"))
    log.write_bytes(b"2\n")
    assert lines(source) == [(1, b"2")]


def test_a_new_file_with_the_number_of_a_removed_one_is_read_from_its_beginning(
    log: Path, followed: tuple[FileSource, FileSource]
) -> None:
    """The kernel gives an inode's number again: here the same file gets other text."""
    source, other = followed
    lines(source)
    lines(other)
    with log.open("r+b") as file:
        file.write(b"x\ny\n")
    assert lines(source) == [(1, b"x"), (2, b"y")]


def test_a_position_is_the_end_of_the_newest_whole_line_and_reading_starts_there(log: Path) -> None:
    source = FileSource(log, "", follow=True)
    append(log, b"22\n33")
    lines(source)
    position = source.position(None)
    assert position == FilePosition(log.stat().st_ino, offset_bytes=5, lines=2, mark=b"1\n22\n")
    append(log, b"3\n")
    log.rename(log.with_name("a.log.1"))
    log.write_bytes(b"new\n")
    resumed = FileSource(log, "", follow=True, start=position)
    assert [lines(resumed) for _ in range(2)] == [[(3, b"333")], [(1, b"new")]]
    assert resumed.position(None) == FilePosition(log.stat().st_ino, offset_bytes=4, lines=1, mark=b"new\n")


def test_a_position_of_a_file_that_is_gone_starts_with_the_one_in_its_place(log: Path) -> None:
    start = FilePosition(log.stat().st_ino + 1000, offset_bytes=99, lines=9, mark=b"other\n")
    assert lines(FileSource(log, "", follow=True, start=start)) == [(1, b"1")]


@pytest.mark.parametrize("in_its_place", ["folder", "pipe", "packed", "zip"])
def test_what_is_no_log_any_more_is_refused_until_it_is_one_again(log: Path, in_its_place: str) -> None:
    source = FileSource(log, "", follow=True)
    append(log, b"2\n")
    log.rename(log.with_name("a.log.1"))
    put(log, in_its_place)
    assert lines(source) == [(1, b"1"), (2, b"2")]
    with pytest.raises(InputError, match=f"^{log}: "):
        source.read(START_NS)
    log.rmdir() if log.is_dir() else log.unlink()
    log.write_bytes(b"3\n")
    assert lines(source) == [(1, b"3")]


def put(path: Path, what: str) -> None:
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(gzip.compress(b"x\n") if what == "packed" else b"PK\x03\x04")


def test_a_file_that_turns_out_to_be_packed_once_it_has_bytes_is_refused(log: Path) -> None:
    source = FileSource(log, "", follow=True)
    lines(source)
    log.rename(log.with_name("a.log.1"))
    log.write_bytes(b"")
    assert lines(source) == []
    log.write_bytes(gzip.compress(b"x\n"))
    with pytest.raises(InputError, match="packed with gzip, so it can't grow"):
        source.read(START_NS)


@pytest.mark.parametrize(("is_named", "is_refused"), [(True, True), (False, False)])
def test_a_removed_file_is_a_fault_only_where_the_user_named_it(log: Path, is_named: bool, is_refused: bool) -> None:
    source = FileSource(log, "", follow=True, root=None if is_named else log.parent)
    lines(source)
    log.unlink()
    assert lines(source) == []
    later_ns = START_NS + ROTATES_WITHIN_NS
    if is_refused:
        with pytest.raises(InputError, match=r"a\.log: no such file any more"):
            source.read(later_ns)
    else:
        assert lines(source, later_ns) == []
    log.write_bytes(b"2\n")
    assert lines(source, later_ns) == [(1, b"2")]


def test_what_was_seen_of_a_file_and_removed_before_it_was_read_is_counted(
    log: Path, followed: tuple[FileSource, FileSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epicenter.ingest.collect.files.READ_BYTES", 2)
    source, other = followed
    append(log, b"2\n3\n")
    assert lines(source) == [(1, b"1")]
    lines(other)
    log.unlink()
    assert lines(source) == []
    assert source.lost_bytes == 4


def test_a_rotated_file_that_may_not_be_read_does_not_keep_from_the_new_one(
    log: Path, followed: tuple[FileSource, FileSource]
) -> None:
    source, other = followed
    lines(source)
    lines(other)
    append(log, b"2\n")
    log.chmod(0)
    log.rename(log.with_name("a.log.1"))
    log.write_bytes(b"3\n")
    with without_privileges():
        assert lines(source) == [(1, b"3")]
    assert source.lost_bytes == 2


def test_a_link_is_followed_to_the_file_that_it_leads_to_now(tmp_path: Path) -> None:
    """As /var/log/containers: the runtime rotates the file, and a restart moves the link."""
    pods, link = tmp_path / "pods", tmp_path / "a.log"
    pods.mkdir()
    (pods / "0.log").write_bytes(b"1\n")
    link.symlink_to(pods / "0.log")
    open_files = OpenFiles(1)
    source = FileSource(link, "", follow=True, open_files=open_files)
    assert lines(source) == [(1, b"1")]
    append(pods / "0.log", b"2\n")
    (pods / "0.log").rename(pods / "0.log.20260302-090005")
    (pods / "0.log").write_bytes(b"3\n")
    source.close()
    assert [lines(source), lines(source)] == [[(2, b"2")], [(1, b"3")]]
    (pods / "1.log").write_bytes(b"4\n")
    append(pods / "0.log", b"3b\n")
    link.unlink()
    link.symlink_to(pods / "1.log")
    assert [lines(source), lines(source)] == [[(2, b"3b")], [(1, b"4")]]


def test_a_file_is_found_by_its_inode_wherever_it_was_moved_in_its_folder(log: Path) -> None:
    inode = log.stat().st_ino
    assert path_of(log, inode) == log
    moved = log.rename(log.with_name("a-20260301.log"))
    assert path_of(log, inode) == moved
    assert newer_than(log, inode) == []
    moved.rename(log.with_name("a.log-20260301"))
    log.write_bytes(b"")
    assert newer_than(log, inode) == [log]
    log.with_name("a.log-20260301").unlink()
    assert path_of(log, inode) is None


# open files


def test_the_file_read_longest_ago_is_closed_first() -> None:
    open_files = OpenFiles(2)
    for owner in ("a", "b"):
        open_files.keep(owner, open_files.open("/dev/null"))
    assert open_files.of("a") is not None
    open_files.keep("c", open_files.open("/dev/null"))
    assert [open_files.of(owner) is not None for owner in "abc"] == [True, False, True]
