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


@pytest.mark.parametrize(("follow", "wanted"), [(False, "--boot"), (True, "--follow --lines=0")])
def test_journal_entries_are_matched(journalctl: Path, follow: bool, wanted: str) -> None:
    source = JournalSource(follow)
    batches = drained(source)
    source.close()
    matches = [match for batch in batches for match in a_scanner().scan(batch).matches]
    assert [(match.rule, match.event.node, match.event.event_time_ns) for match in matches] == [
        ("nvidia.xid_79", "n1", at(5)),
        ("nvidia.xid_79", "n1", at(6)),
    ]
    assert {batch.source for batch in batches} == {"journal"}
    assert (journalctl / "arguments").read_text() == f"-o json --no-pager {wanted}\n"


def test_a_journal_is_readable_when_it_shows_an_entry(journalctl: Path) -> None:
    assert JournalSource.is_readable()
    (journalctl / "entries").write_bytes(b"")
    assert not JournalSource.is_readable()


def test_without_journalctl_there_is_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not JournalSource.is_readable()
