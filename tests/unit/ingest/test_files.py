"""Log files, read once or followed through rotation, truncation and removal."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.files import READ_BYTES, FileSource
from epicenter.ingest.collect.lines import MAX_LINE_BYTES
from epicenter.ingest.collect.listing import log_files
from epicenter.ingest.collect.positions import FilePosition
from epicenter.ingest.collect.rotation import unrotated
from epicenter.ingest.collect.source import Source, Sources
from epicenter.rules.errors import InputError
from epicenter.stream.scan.validation import MAX_RECORD_BYTES
from tests.support.logs import START_NS, a_scanner

TRACEBACK = b"Traceback (most recent call last):"


def lines(batch: Batch | None) -> list[tuple[int, bytes]]:
    return [] if batch is None else list(zip(batch.offsets, batch.values, strict=True))


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def read_all(path: Path) -> list[tuple[int, bytes]]:
    source = FileSource(path, "n1", follow=False)
    found: list[tuple[int, bytes]] = []
    while not source.has_ended:
        found += lines(source.read(START_NS))
    source.close()
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_bytes(b"")
    return path


# once


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b"a\nb\n", [(1, b"a"), (2, b"b")], id="two-lines"),
        pytest.param(b"a\nb", [(1, b"a"), (2, b"b")], id="last-line-without-newline"),
        pytest.param(b"a\r\nb\r\n", [(1, b"a"), (2, b"b")], id="crlf"),
        pytest.param(b"a\n\nb\n", [(1, b"a"), (2, b""), (3, b"b")], id="blank-line-counts"),
        pytest.param(b"10%\r20%\r100%\n", [(1, b"10%\r20%\r100%")], id="progress-bar"),
        pytest.param(b"\xff\x00\n", [(1, b"\xff\x00")], id="no-text"),
    ],
)
def test_a_file_read_once_gives_numbered_lines(log: Path, content: bytes, expected: list[tuple[int, bytes]]) -> None:
    log.write_bytes(content)
    assert read_all(log) == expected


def test_lines_longer_than_a_read_are_whole(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epicenter.ingest.collect.files.READ_BYTES", 7)
    log.write_bytes(b"a" * 30 + b"\n" + b"b" * 3 + b"\n" + b"c" * 20)
    assert read_all(log) == [(1, b"a" * 30), (2, b"b" * 3), (3, b"c" * 20)]


@pytest.mark.parametrize(("host", "is_recording"), [("", True), ("n1", False)])
def test_a_file_read_once_is_older_than_its_reading_however_old_it_is(log: Path, host: str, is_recording: bool) -> None:
    log.write_bytes(b"a\n")
    os.utime(log, ns=(START_NS, START_NS))
    batch = FileSource(log, host, follow=False).read(START_NS + 5)
    assert batch
    assert (batch.is_recorded, batch.is_recording, [*batch.received_ns]) == (True, is_recording, [START_NS + 5])
    assert ([*batch.keys], batch.source) == ([host.encode()], str(log))


def test_a_giant_line_is_a_dead_letter_and_the_next_lines_still_match(log: Path) -> None:
    log.write_bytes(TRACEBACK + b"\n" + b"x" * (10 << 20) + TRACEBACK + b"\n" + TRACEBACK + b"\n")
    source, scanner, matched, dead = FileSource(log, "n1", follow=False), a_scanner(), [], []
    while not source.has_ended:
        if batch := source.read(START_NS):
            scanned = scanner.scan(batch)
            matched += [match.event.position.offset for match in scanned.matches]
            dead += scanned.dead_letters
    assert matched == [1, 3]
    assert [(dead_letter.position.offset, dead_letter.size_bytes > MAX_RECORD_BYTES) for dead_letter in dead] == [
        (2, True)
    ]


def test_a_line_beyond_all_bounds_is_one_dead_letter_and_its_head_still_matches(log: Path) -> None:
    with log.open("wb") as file:
        file.write(b"a\n" + TRACEBACK)
        for _ in range(30):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + TRACEBACK + b"\n")
    source, scanner, found = FileSource(log, "n1", follow=False), a_scanner(), []
    while not source.has_ended:
        if batch := source.read(START_NS):
            assert sum(map(len, batch.values)) < MAX_LINE_BYTES + 2 * READ_BYTES
            found.append(scanner.scan(batch))
    matched = [match.event.position.offset for scanned in found for match in scanned.matches]
    assert matched == [2, 3]
    assert [dead_letter.position.offset for scanned in found for dead_letter in scanned.dead_letters] == [2]
    assert sum(scanned.records for scanned in found) == 3


def test_parts_of_a_container_s_line_are_one_line(log: Path) -> None:
    head = b"2026-03-02T09:00:05Z stderr"
    log.write_bytes(head + b" P Traceback (most re\n" + head + b" F cent call last):\n" + head + b" F next\n")
    assert read_all(log) == [(1, head + b" F " + TRACEBACK), (3, head + b" F next")]


# follow


def test_a_followed_part_waits_for_its_end_and_is_flushed_with_its_file(log: Path) -> None:
    head = b"2026-03-02T09:00:05Z stderr"
    source = FileSource(log, "n1", follow=True)
    append(log, head + b" P a\n")
    assert source.read(START_NS) is None
    append(log, head + b" F b\n" + head + b" P c\n")
    assert lines(source.read(START_NS)) == [(1, head + b" F ab")]
    log.rename(log.with_name("a.log.1"))
    log.write_bytes(b"d\n")
    assert lines(source.read(START_NS)) == [(3, head + b" P c")]
    assert lines(source.read(START_NS)) == [(1, b"d")]


def test_a_partial_line_waits_for_its_end(log: Path) -> None:
    source = FileSource(log, "n1", follow=True)
    append(log, b"a\nb")
    assert lines(source.read(START_NS)) == [(1, b"a")]
    assert source.read(START_NS) is None
    append(log, b"c\n")
    batch = source.read(START_NS)
    assert lines(batch) == [(2, b"bc")]
    assert batch
    assert ([*batch.received_ns], batch.is_recorded, source.has_ended) == ([START_NS], False, False)


def test_a_renamed_file_is_read_to_its_end_before_the_new_one(log: Path) -> None:
    source = FileSource(log, "n1", follow=True)
    append(log, b"a\n")
    assert lines(source.read(START_NS)) == [(1, b"a")]
    append(log, b"b\nleft over")
    log.rename(log.with_name("a.log.1"))
    assert lines(source.read(START_NS)) == [(2, b"b")]
    assert source.read(START_NS) is None
    log.write_bytes(b"c\n")
    assert lines(source.read(START_NS)) == [(3, b"left over")]
    assert lines(source.read(START_NS)) == [(1, b"c")]


def test_a_truncated_file_is_read_from_its_beginning(log: Path) -> None:
    source = FileSource(log, "n1", follow=True)
    append(log, b"a\nbb\n")
    source.read(START_NS)
    log.write_bytes(b"c\n")
    assert lines(source.read(START_NS)) == [(1, b"c")]


def test_a_removed_file_is_followed_again_once_it_is_back(log: Path) -> None:
    source = FileSource(log, "n1", follow=True)
    append(log, b"a\n")
    source.read(START_NS)
    log.unlink()
    assert source.read(START_NS) is None
    log.parent.joinpath("other").write_bytes(b"")  # so that the new file is another one
    log.write_bytes(b"c\n")
    assert lines(source.read(START_NS)) == [(1, b"c")]


# folders


def names(found: Sources) -> list[str]:
    return [Path(source.name).name for source in found.all()]


def drained(found: Sources) -> list[bytes]:
    return [value for source in found.all() for _, value in lines(source.read(START_NS))]


def test_a_new_file_in_a_folder_is_found(tmp_path: Path) -> None:
    found = Sources([str(tmp_path)], "n1", follow=True)
    assert found.all() == []
    nested = tmp_path / "job" / "rank0.out"
    nested.parent.mkdir()
    nested.write_bytes(b"a\n")
    found.open_new_files()
    found.open_new_files()
    assert names(found) == ["rank0.out"]
    assert drained(found) == [b"a"]
    found.close()


def test_followed_lines_are_read_once_through_rotation(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"a\n")
    found = Sources([str(tmp_path)], "n1", follow=True)
    seen = drained(found)
    for number in range(3):
        append(log, b"last of %d\n" % number)
        for older in (2, 1):
            if (file := tmp_path / f"a.log.{older}").exists():
                file.rename(tmp_path / f"a.log.{older + 1}")
        log.rename(tmp_path / "a.log.1")
        found.open_new_files()
        log.write_bytes(b"first of %d\n" % (number + 1))
        for _ in range(3):
            found.open_new_files()
            seen += drained(found)
    assert seen == [b"a", *expected()]
    found.close()


def expected() -> list[bytes]:
    return [line for number in range(3) for line in (b"last of %d" % number, b"first of %d" % (number + 1))]


def test_a_recorded_folder_is_read_with_its_rotated_files(tmp_path: Path) -> None:
    for name in ("a.log", "a.log.1", "a.log.2", "b.log.1"):
        (tmp_path / name).write_text(name)
    found = Sources([str(tmp_path)], "n1", follow=False)
    assert names(found) == ["a.log.2", "a.log.1", "a.log", "b.log.1"]
    found.close()


def test_a_numbered_file_that_nothing_rotated_is_followed(tmp_path: Path) -> None:
    (tmp_path / "rank.out.3").write_bytes(b"a\n")
    found = Sources([str(tmp_path)], "n1", follow=True)
    assert drained(found) == [b"a"]
    found.close()


@pytest.mark.parametrize(
    ("name", "is_log"),
    [
        ("a.log", True),
        ("a.out", True),
        ("a.err", True),
        ("a.jsonl", True),
        ("n1.dmesg", True),
        ("n1.syslog.1", True),
        ("a.stderr", True),
        ("a.log.1", True),
        ("a.jsonl.12", True),
        ("syslog", True),
        ("syslog.1", True),
        ("slurm-7877.out", True),
        ("a.log.gz", True),
        ("a.log.2.gz", True),
        ("a.log.2.xz", True),
        ("syslog.2.gz", True),
        ("messages-20260301", True),
        ("kern.log-20260301.gz", True),
        ("0.log.20260302-090005", True),
        ("llama.o7877", True),
        ("llama.e7877-3", True),
        ("model.gz", False),
        ("logs.tar.gz", False),
        ("release.zip", False),
        ("model.pt", False),
        ("truth.json", False),
        (".a.log", False),
        ("core.py.1", False),
    ],
)
def test_log_files_are_recognized_by_name(tmp_path: Path, name: str, is_log: bool) -> None:
    (tmp_path / name).write_bytes(b"")
    assert [file.name for file in log_files(tmp_path)] == [name] * is_log


TIMED = "2026-03-01T02:00:00Z n1 kernel: up\n"
TIMED_OBJECT = '{"time": "2026-03-01T02:00:00Z", "log": "up"}\n'


@pytest.mark.parametrize(
    ("name", "content", "is_log"),
    [
        ("n1.dc2", 2 * TIMED, True),
        ("events.json", 2 * TIMED_OBJECT, True),
        ("n1.dc2", TIMED, False),
        ("report.json", TIMED_OBJECT, False),
        ("NOTES.md", "# What happened\n" + 9 * TIMED, False),
        (".hidden.dc2", 2 * TIMED, False),
        ("core.1a", "\0\1\2" + 2 * TIMED, False),
    ],
)
def test_other_log_files_are_recognized_by_the_times_of_their_first_lines(
    tmp_path: Path, name: str, content: str, is_log: bool
) -> None:
    (tmp_path / name).write_text(content)
    assert [file.name for file in log_files(tmp_path)] == [name] * is_log


def test_files_that_are_no_logs_are_left_out_and_named(tmp_path: Path) -> None:
    for name in ("a.log", "model.pt", "truth.json"):
        (tmp_path / name).write_text("a\n")
    found = Sources([str(tmp_path)], "n1", follow=False)
    assert [file.name for file in found.left_out()] == ["model.pt", "truth.json"]
    found.close()


def test_a_followed_file_becomes_a_log_when_its_second_line_has_come(tmp_path: Path) -> None:
    (tmp_path / "n1.dc2").write_text(TIMED)
    found = Sources([str(tmp_path)], "n1", follow=True)
    assert not found.all()
    (tmp_path / "n1.dc2").write_text(2 * TIMED)
    found.open_new_files()
    assert drained(found) == [TIMED.strip().encode()] * 2
    found.close()


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("a.log.1", "a.log"),
        ("a.log", "a.log"),
        ("syslog.12", "syslog"),
        ("a.1x", "a.1x"),
        ("a.log.2.gz", "a.log"),
        ("messages-20260301", "messages"),
    ],
)
def test_a_rotated_file_has_its_original_name(name: str, before: str) -> None:
    assert unrotated(Path("/x") / name) == Path("/x") / before


def test_all_missing_files_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        Sources([str(tmp_path / "a"), str(tmp_path), str(tmp_path / "b")], "n1", follow=False)
    assert str(refused.value).splitlines() == [f"{tmp_path}/{name}: no such file or folder" for name in "ab"]


def test_rotated_logs_of_a_folder_come_oldest_first_packed_or_not(tmp_path: Path) -> None:
    names = ["a.log.10.gz", "a.log.9.zst", "a.log.2", "a.log.1", "a.log", "b-20260301.xz", "b-20260308", "b"]
    names += ["b.log-20260308", "b.log-20260308-120000.bz2", "b.log"]
    for name in names:
        (tmp_path / name).write_bytes(b"a\n")
    assert [file.name for file in log_files(tmp_path)] == names


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path}: can't be read: Is a directory"):
        FileSource(tmp_path, "n1", follow=False)


# what can't be read


def test_a_packed_file_is_read_like_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"a\nb"))
    assert read_all(tmp_path / "a.log.gz") == [(1, b"a"), (2, b"b")]


MAX_GARBLED_LINES = 20
"""Damaged bytes still unpack to something, until the checksum or a code shows the damage."""


@pytest.mark.parametrize("damage", [lambda packed: packed[:-900], lambda packed: packed[:-900] + b"\xff" * 900])
def test_of_a_damaged_packed_file_the_lines_before_the_damage_are_read(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    random = Random(1)
    content = [b"%d %s" % (number, random.randbytes(99).hex().encode()) for number in range(999)]
    (tmp_path / "a.log.gz").write_bytes(damage(gzip.compress(b"\n".join(content))))
    found = Sources([str(tmp_path)], "", follow=False)
    read = [line for source in found.all() for line in drained_source(source)]
    assert 900 < len(read) < 999
    certain = len(read) - MAX_GARBLED_LINES
    assert read[:certain] == content[:certain]
    assert found.faults() == [
        f"{tmp_path}/a.log.gz: packed with gzip, and cut off or damaged: only the lines before that were read"
    ]


def test_a_packed_bomb_is_read_in_bounded_memory(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.log.gz", "wb", compresslevel=1) as packed:
        packed.write(b"a\n")
        for _ in range(64):
            packed.write(b"x" * (1 << 20))
    source = FileSource(tmp_path / "a.log.gz", "", follow=False)
    while not source.has_ended:
        if batch := source.read(START_NS):
            assert sum(map(len, batch.values)) < MAX_LINE_BYTES + 2 * READ_BYTES


def test_a_byte_order_mark_is_no_part_of_the_first_line(log: Path) -> None:
    log.write_bytes("\ufeffa\nb\n".encode())
    assert read_all(log) == [(1, b"a"), (2, b"b")]


def drained_source(source: Source) -> list[bytes]:
    read = []
    while not source.has_ended:
        read += [value for _, value in lines(source.read(START_NS))]
    return read


UNREADABLE = {
    "empty-folder": ({}, ["{}: no log in this folder"]),
    "empty-files": ({"a.log": b"", "b.log": b"\n"}, ["{}: empty: none of its 2 logs has a line"]),
    "one-is-packed": (
        {"a.log": b"a\n", "a.log.2.zip": b"PK\x03\x04"},
        ["{}/a.log.2.zip: packed with zip: unpack it first"],
    ),
    "one-is-binary": (
        {"a.log": b"a\n", "b.log": b"\0\1\2x" * 9},
        ["{}/b.log: a binary file, not a log: give the log as text"],
    ),
    "one-is-empty": ({"a.log": b"a\n", "b.log": b""}, []),
}


@pytest.mark.parametrize(("files", "expected"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_a_folder_does_not_give_is_named_and_the_rest_is_read(
    tmp_path: Path, files: dict[str, bytes], expected: list[str]
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    try:
        found = Sources([str(tmp_path)], "", follow=False)
    except InputError as error:
        faults = str(error).splitlines()
    else:
        faults = found.faults()
        assert [line for source in found.all() for line in drained_source(source) if line] == [b"a"] * (
            len(files) > 0 and b"a\n" in files.values()
        )
    assert faults == [sentence.format(tmp_path) for sentence in expected]


def test_a_broken_link_in_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"a\n")
    (tmp_path / "b.log").symlink_to("nowhere")
    assert Sources([str(tmp_path)], "", follow=False).faults() == [f"{tmp_path}/b.log: broken link: no such log file"]


def test_a_folder_that_is_followed_may_be_empty_and_its_packed_files_are_history(tmp_path: Path) -> None:
    (tmp_path / "a.log.2.gz").write_bytes(gzip.compress(b"a\n"))
    found = Sources([str(tmp_path)], "", follow=True)
    assert (found.all(), found.faults()) == ([], [])


def test_a_named_file_that_is_no_log_can_not_be_followed(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"a\n"))
    with pytest.raises(InputError, match=r"a\.log\.gz: packed with gzip, so it can't grow: read it with --once"):
        Sources([str(tmp_path / "a.log.gz")], "", follow=True)


def lines_read(source: FileSource) -> list[tuple[int, bytes]]:
    return lines(source.read(START_NS))


def resumed(path: Path, start: FilePosition | None) -> FileSource:
    return FileSource(path, "n1", follow=True, start=start)


def test_a_restarted_source_continues_where_the_last_one_was(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\ntwo\nthr")
    first = resumed(log, None)
    assert lines_read(first) == [(1, b"one"), (2, b"two")]
    with log.open("ab") as file:
        file.write(b"ee\nfour\n")
    assert lines_read(resumed(log, first.position(None))) == [(3, b"three"), (4, b"four")]


def test_a_restarted_source_reads_the_rest_of_a_file_that_was_rotated_meanwhile(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\ntwo\n")
    first = resumed(log, None)
    assert len(lines_read(first)) == 2
    with log.open("ab") as file:
        file.write(b"three\n")
    log.rename(tmp_path / "a.log.1")
    log.write_bytes(b"four\n")
    second = resumed(log, first.position(None))
    assert [lines_read(second), lines_read(second), lines_read(second)] == [[(3, b"three")], [(1, b"four")], []]


def test_a_restarted_source_begins_before_the_first_buffered_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\ntwo\n")
    first = resumed(log, None)
    assert len(lines_read(first)) == 2
    with log.open("ab") as file:
        file.write(b"three\nfour\nfive\n")
    assert len(lines_read(first)) == 3
    assert [number for number, _ in lines_read(resumed(log, first.position(first_buffered=4)))] == [4, 5]
    assert [number for number, _ in lines_read(resumed(log, first.position(first_buffered=2)))] == [2, 3, 4, 5]
    assert lines_read(resumed(log, first.position(None))) == []
    assert first.position(first_buffered=2) is None, "its position was given up with the newest one"


def test_a_restarted_source_begins_before_a_line_that_was_buffered_at_a_rotation(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\ntwo\n")
    first = resumed(log, None)
    assert len(lines_read(first)) == 2
    log.rename(tmp_path / "a.log.1")
    log.write_bytes(b"three\n")
    assert lines_read(first) == [(1, b"three")]
    second = resumed(log, first.position(first_buffered=2))
    assert [lines_read(second), lines_read(second)] == [[(2, b"two")], [(1, b"three")]]


def test_a_file_that_was_emptied_and_written_anew_with_more_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\ntwo\n")
    source = resumed(log, None)
    assert len(lines_read(source)) == 2
    log.write_bytes(b"three\nfour\nfive\n")
    assert lines_read(source) == [(1, b"three"), (2, b"four"), (3, b"five")]


def test_a_name_that_is_no_utf_8_is_escaped_wherever_it_is_shown(tmp_path: Path) -> None:
    log = Path(os.fsdecode(os.fsencode(tmp_path) + b"/job-\xff\n7.log"))
    log.write_bytes(b"one\n")
    sources = Sources([str(tmp_path)], "n1", follow=True)
    (source,) = sources.all()
    batch = source.read(START_NS)
    assert batch
    assert batch.origin
    for text in (batch.source, batch.origin.job, batch.origin.log):
        assert "\\xff" in text
        assert text.encode()
    assert sources.positions(lambda _: None) == {source.name: source.position(None)}
    sources.close()


def test_a_restart_between_a_rename_and_the_new_file_continues_in_the_renamed_one(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\ntwo\n")
    first = Sources([str(tmp_path)], "n1", follow=True)
    first.all()[0].read(START_NS)
    starts = first.positions(lambda _: None)
    assert starts
    append(log, b"three\n")
    log.rename(tmp_path / "a.log.1")
    second = Sources([str(tmp_path)], "n1", follow=True, starts=starts)
    assert [lines(source.read(START_NS)) for source in second.all()] == [[(3, b"three")]]
