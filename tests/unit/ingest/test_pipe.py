"""Lines from a pipe, and the journal, which is read from one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.journal import JournalSource
from epicenter.ingest.collect.pipe import PipeSource
from epicenter.rules.errors import InputError
from tests.support.logs import START_NS, a_scanner, at, journald

XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."


@pytest.fixture
def pipe() -> Iterator[tuple[int, PipeSource]]:
    reader, writer = os.pipe()
    yield writer, PipeSource("n1", reader)
    os.close(reader)


def lines(batch: Batch | None) -> list[tuple[int, bytes]]:
    return [] if batch is None else list(zip(batch.offsets, batch.values, strict=True))


def test_reading_an_idle_pipe_does_not_block(pipe: tuple[int, PipeSource]) -> None:
    writer, source = pipe
    assert source.read(START_NS) is None
    assert not source.has_ended
    os.close(writer)


def test_a_partial_line_waits_for_its_end(pipe: tuple[int, PipeSource]) -> None:
    writer, source = pipe
    os.write(writer, b"a\nb")
    batch = source.read(START_NS)
    assert lines(batch) == [(1, b"a")]
    assert batch
    assert (batch.source, [*batch.keys], [*batch.received_ns]) == ("stdin", [b"n1"], [START_NS])
    os.write(writer, b"c\nd")
    assert lines(source.read(START_NS)) == [(2, b"bc")]
    os.close(writer)
    assert lines(source.read(START_NS)) == [(3, b"d")]
    assert source.has_ended
    assert source.read(START_NS) is None


def test_windows_newlines_end_lines(pipe: tuple[int, PipeSource]) -> None:
    writer, source = pipe
    os.write(writer, b"a\r\nb\r\n")
    assert lines(source.read(START_NS)) == [(1, b"a"), (2, b"b")]
    os.close(writer)


def test_an_empty_pipe_ends(pipe: tuple[int, PipeSource]) -> None:
    writer, source = pipe
    os.close(writer)
    assert source.read(START_NS) is None
    assert source.has_ended


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "stdin: empty: no line to read"),
        (b"\n\n", "stdin: empty: no line to read"),
        (b"\x1f\x8b\x08\0", "stdin: packed with gzip: unpack it first"),
        (b"\0\1\2\3x", "stdin: a binary file, not a log: give the log as text"),
        (b"a\n", ""),
    ],
    ids=["empty", "blank", "packed", "binary", "text"],
)
def test_a_pipe_without_log_lines_has_a_fault(pipe: tuple[int, PipeSource], content: bytes, expected: str) -> None:
    writer, source = pipe
    os.write(writer, content)
    os.close(writer)
    while not source.has_ended:
        source.read(START_NS)
    assert source.fault == expected


@pytest.fixture
def journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journalctl that prints its arguments and two entries."""
    entries = tmp_path / "entries"
    entries.write_bytes(journald("n1", 5, XID) + b"\n" + journald("n1", 6, f"\x1b[1m{XID}") + b"\n")
    program = tmp_path / "journalctl"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nexec cat {entries}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def drained(source: JournalSource) -> list[Batch]:
    found = []
    while not source.has_ended:
        if batch := source.read(START_NS):
            found.append(batch)
    return found


def followed(source: JournalSource) -> list[Batch]:
    """What comes until journalctl ends."""
    found = []
    with pytest.raises(InputError, match="journal: journalctl ended with code"):
        while True:
            if batch := source.read(START_NS):
                found.append(batch)
    return found


@pytest.mark.parametrize(("follow", "wanted"), [(False, "--boot"), (True, "--follow --lines=0")])
def test_journal_entries_are_matched(journalctl: Path, follow: bool, wanted: str) -> None:
    source = JournalSource(follow)
    batches = followed(source) if follow else drained(source)
    source.close()
    matches = [match for batch in batches for match in a_scanner().scan(batch).matches]
    assert [(match.rule, match.event.node, match.event.event_time_ns) for match in matches] == [
        ("nvidia.xid_79", "n1", at(5)),
        ("nvidia.xid_79", "n1", at(6)),
    ]
    assert {batch.source for batch in batches} == {"journal"}
    assert (journalctl / "arguments").read_text() == f"-o json --no-pager {wanted}\n"


def entry(number: int) -> bytes:
    return b'{"__CURSOR": "c%d", "MESSAGE": "line %d"}\n' % (number, number)


def test_a_followed_journal_continues_after_its_last_whole_entry(journalctl: Path) -> None:
    entries = journalctl / "entries"
    entries.write_bytes(entry(1) + entry(2) + entry(3)[:-9])
    source = JournalSource(follow=True)
    first = [(number, value) for batch in followed(source) for number, value in lines(batch)]
    assert first == [(1, entry(1).strip()), (2, entry(2).strip())]
    entries.write_bytes(entry(3))
    assert [lines(batch) for batch in followed(source)] == [[(3, entry(3).strip())]]
    assert (journalctl / "arguments").read_text() == "-o json --no-pager --follow --no-tail --after-cursor=c2\n"
    assert not source.has_ended
    source.close()


def test_a_restarted_journal_continues_after_the_last_entry_that_was_not_buffered(journalctl: Path) -> None:
    entries = journalctl / "entries"
    entries.write_bytes(entry(1) + entry(2))
    first = JournalSource(follow=True)
    followed(first)
    entries.write_bytes(entry(3) + entry(4))
    followed(first)
    start = first.position(first_buffered=4)
    first.close()
    second = JournalSource(follow=True, start=start)
    found = [line for batch in followed(second) for line in lines(batch)]
    second.close()
    assert (journalctl / "arguments").read_text() == "-o json --no-pager --follow --no-tail --after-cursor=c2\n"
    assert found == [(4, entry(4).strip())]


def test_what_journalctl_complains_about_is_named(journalctl: Path) -> None:
    (journalctl / "journalctl").write_text("#!/bin/sh\necho No journal files >&2\nexit 1\n")
    with pytest.raises(InputError, match="journal: journalctl ended with code 1: No journal files"):
        followed_forever(JournalSource(follow=True))


def followed_forever(source: JournalSource) -> None:
    while True:
        source.read(START_NS)


def test_a_journal_is_readable_when_it_shows_an_entry(journalctl: Path) -> None:
    assert JournalSource.is_readable()
    (journalctl / "entries").write_bytes(b"")
    assert not JournalSource.is_readable()


def test_without_journalctl_there_is_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not JournalSource.is_readable()
