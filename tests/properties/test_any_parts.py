"""A file that several processes scan in parts has the same matches as in one, wherever it is cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from subprocess import PIPE

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.ingest.collect.files import FileSource
from epicenter.ingest.collect.source import Sources, read_to_the_end
from epicenter.stream.local import parts
from epicenter.stream.local.parts import scan_in_parts
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.scan import BatchScanner, ScanResult
from tests.support.logs import the_rules

TRACEBACK = """[rank3]: Traceback (most recent call last):
[rank3]:   File "/app/train.py", line 7, in <module>
[rank3]:     main()
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."""
PIECES = [
    "Mar  2 09:00:01 n3 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
    *TRACEBACK.split("\n"),
    TRACEBACK,
    TRACEBACK.replace("[rank3]", "[rank4]"),
    "2026-03-02T09:00:00.1Z stderr P torch.OutOfMemoryError: CUDA out",
    "2026-03-02T09:00:00.2Z stderr P  of memory. Tried to",
    "2026-03-02T09:00:00.3Z stderr F  allocate 2.00 GiB.",
    "2026-03-02T09:00:00.4Z stdout P epoch",
    '{"time":"2026-03-02T09:00:00Z","host":"n1","log":"NVRM: Xid (PCI:0000:3b:00): 31, pid=1, MMU fault"}',
    '{"log": broken',
    "a quiet line",
    "",
    "x" * 300,
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=60).map("\n".join)


@cache
def scanner() -> BatchScanner:
    return BatchScanner(the_rules(), "default", keep_all=True)


def shown(results: list[ScanResult]) -> tuple[object, ...]:
    """All that `match` prints."""
    matches = [
        (match.event.position, match.rule, match.fields, match.event.text, match.block)
        for scanned in results
        for match in scanned.matches
    ]
    dead = [(letter.position, letter.reason) for scanned in results for letter in scanned.dead_letters]
    totals = [sum(getattr(scanned, name) for scanned in results) for name in ("records", "harmless", "dead")]
    return sorted(matches, key=lambda match: match[:2]), sorted(dead), totals


def in_one(file: Path) -> tuple[object, ...]:
    return shown(list(BlockBuffer(scanner()).scan_all(read_to_the_end(Sources([str(file)], "", follow=False)))))


@given(TEXTS, st.integers(1, 900), st.sampled_from(["", "\n"]))
def test_parts_give_what_the_whole_file_gives(
    tmp_path_factory: pytest.TempPathFactory, text: str, part_bytes: int, end: str
) -> None:
    file = tmp_path_factory.mktemp("parts") / "a.log"
    file.write_text("a first line\n" + text + end)
    sources = Sources([str(file)], "", follow=False)
    (source,) = sources.all()
    assert isinstance(source, FileSource)
    source.inspect_ends(0)
    own = parts._Own(sources, BlockBuffer(scanner()), lambda part: None)
    found = [
        result
        for part in source.parts(part_bytes)
        for result in own.results(part, parts._scanned(sources, scanner(), part))
    ]
    found += [scanned for _, scanned in own.buffer.rest()]
    assert shown(found) == in_one(file)
    source.close()


def many_lines() -> str:
    return "\n".join(piece for number in range(400) for piece in (*PIECES[: 1 + number % 7], f"line {number}"))


def test_processes_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 5000)
    (tmp_path / "a.log").write_text(many_lines())
    found = list(scan_in_parts(Sources([str(tmp_path)], "", follow=False), scanner(), 3, lambda part: None))
    assert shown(found) == in_one(tmp_path / "a.log")
    assert len(found) > 20


def test_this_process_scans_what_one_that_was_killed_has_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 5000)
    (tmp_path / "a.log").write_text(many_lines())
    killed: list[int] = []
    own, before = os.getpid(), children_of(os.getpid())

    def kill_one(part: object) -> None:
        if not killed:
            killed.append(next(pid for pid in children_of(own) if pid not in before))
            os.kill(killed[0], 9)

    found = list(scan_in_parts(Sources([str(tmp_path)], "", follow=False), scanner(), 2, kill_one))
    assert shown(found) == in_one(tmp_path / "a.log")
    assert children_of(own) == before


def test_a_file_that_can_not_be_read_any_more_gives_the_lines_before_and_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 5000)
    log = tmp_path / "a.log"
    log.write_text(many_lines())
    sources = Sources([str(log)], "", follow=False)
    (source,) = sources.all()
    assert isinstance(source, FileSource)
    folder, own, shown_parts = os.open(tmp_path, os.O_RDONLY), os.getpid(), list[object]()

    def end_processes_then_reading(part: object) -> None:
        shown_parts.append(part)
        if len(shown_parts) == 1:
            for pid in children_of(own):
                os.kill(pid, 9)
        else:
            os.dup2(folder, source._file.fileno())

    found = list(scan_in_parts(sources, scanner(), 2, end_processes_then_reading))
    os.close(folder)
    assert sources.faults() == [f"{log}: can't be read: Is a directory: only the lines before that were read"]
    assert 0 < sum(scanned.records for scanned in found) < many_lines().count("\n")


def children_of(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


MATCH = """
import signal
import sys
from epicenter.stream.cli.main import main
from epicenter.stream.local import parts

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
parts.MIN_BYTES, parts.PART_BYTES, parts.os.sched_getaffinity = 0, 5000, lambda pid: {0, 1}
main()
"""


def test_ctrl_c_ends_all_processes_quietly(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join([many_lines()] * 20))
    command = [sys.executable, "-c", MATCH, "match", "--json", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, start_new_session=True, env=environment) as started:
        assert started.stdout and started.stdout.readline().startswith(b'{"file":')
        forks = children_of(started.pid)
        os.killpg(started.pid, signal.SIGINT)
        _, err = started.communicate()
    assert (started.returncode, err.strip(), len(forks)) == (130, b"", 2)
    assert not any(Path(f"/proc/{fork}").exists() for fork in forks)
