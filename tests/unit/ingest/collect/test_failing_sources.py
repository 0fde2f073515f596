"""Followed sources that can't be read: once a fault, tried again with pauses, and never the end of the others."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest

from epicenter.ingest.collect import folder_watch
from epicenter.ingest.collect.source import Sources
from epicenter.ingest.collect.source_faults import FIRST_PAUSE_NS, MAX_PAUSE_NS
from epicenter.ingest.collect.turns import Due
from epicenter.rules.errors import InputError
from epicenter.rules.model.times import NS_PER_S
from tests.support.logs import START_NS
from tests.support.privileges import without_privileges

ROUND_NS = NS_PER_S // 10
QUIET_ROUNDS = 110


class Rounds:
    """Reads sources as `epicenter run` does, in simulated time."""

    def __init__(self, *paths: Path):
        self.sources = Sources(list(map(str, paths)), "n1", follow=True)
        self.now_ns = 0
        self.reads = 0

    def run(self, count: int = 1) -> list[bytes]:
        found: list[bytes] = []
        for _ in range(count):
            self.now_ns += ROUND_NS
            for source in self.sources.due(self.now_ns):
                self.reads += 1
                batch = self.sources.read(source, START_NS + self.now_ns)
                found += [batch.values[place] for place in range(len(batch))] if batch else []
            self.sources.look_for_new_files()
        return found

    def changes(self) -> list[tuple[str, bool]]:
        """The names of what began and ended to fail."""
        return [(Path(change.fault.name).name, bool(change.ends_ns)) for change in self.sources.take_fault_changes()]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_bytes(b"1\n")
    return path


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def test_a_folder_in_place_of_a_file_is_one_fault_until_the_file_is_back(log: Path) -> None:
    log.with_name("b.log").write_bytes(b"b\n")
    rounds = Rounds(log.parent)
    assert sorted(rounds.run()) == [b"1", b"b"]
    log.rename(log.with_name(".aside"))
    log.mkdir()
    append(log.with_name("b.log"), b"b2\n")
    assert rounds.run(600) == [b"b2"]
    append(log.with_name(".aside"), b"1b\n")
    assert rounds.run(200) == [b"1b"], "it is still open"
    assert rounds.changes() == [("a.log", False)]
    assert rounds.sources.faults() == [f"{log}: a folder is in its place"]
    log.rmdir()
    log.with_name(".aside").rename(log)
    append(log, b"2\n")
    assert rounds.run(20) == [b"2"]
    assert (rounds.changes(), rounds.sources.faults()) == ([("a.log", True)], [])


def test_a_source_that_fails_is_tried_again_after_growing_pauses(log: Path) -> None:
    rounds = Rounds(log)
    rounds.run(QUIET_ROUNDS)
    with without_privileges():
        log.parent.chmod(0o600)
        try:
            tries = tries_ns(rounds, 1000)
        finally:
            log.parent.chmod(0o700)
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses[:6] == [FIRST_PAUSE_NS << number for number in range(5)] + [MAX_PAUSE_NS]


def tries_ns(rounds: Rounds, count: int) -> list[int]:
    tries = []
    for _ in range(count):
        before = rounds.reads
        rounds.run()
        if rounds.reads > before:
            tries.append(rounds.now_ns)
    return tries


def test_a_file_without_rights_is_a_fault_with_advice_and_is_read_once_it_has_them(log: Path) -> None:
    log.chmod(0)
    with without_privileges():
        rounds = Rounds(log.parent)
        assert rounds.run() == []
        advice = "give this user the right to read it, and to enter its folder"
        assert rounds.sources.faults() == [f"{log}: can't be read: Permission denied: {advice}"]
        log.chmod(0o600)
        assert rounds.run() == [b"1"], "the kernel reports the change of rights"
    assert rounds.changes() == [("a.log", False), ("a.log", True)]


@pytest.mark.parametrize("mode", [0o000, 0o600, 0o300])
def test_a_folder_without_rights_is_waited_for(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.log").write_bytes(b"1\n")
    folder.chmod(mode)
    with without_privileges():
        rounds = Rounds(folder)
        rounds.run(3)
        assert rounds.sources.failing
        folder.chmod(0o700)
        assert rounds.run(300) == [b"1"]
    assert not rounds.sources.failing


def test_a_file_in_a_folder_that_may_not_be_entered_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.log").write_bytes(b"1\n")
    folder.chmod(0)
    with without_privileges():
        rounds = Rounds(folder / "a.log")
        assert (rounds.run(5), rounds.sources.all()) == ([], [])
        assert rounds.changes() == [("a.log", False)]
        folder.chmod(0o700)
        assert rounds.run(20) == [b"1"]
    assert rounds.changes() == [("a.log", True)]


def test_a_path_that_does_not_exist_is_refused_at_the_start(log: Path) -> None:
    missing = log.with_name("missing")
    with pytest.raises(InputError) as refused:
        Sources([str(log), str(missing), str(log.with_name("also"))], "n1", follow=True)
    assert str(refused.value).splitlines() == [
        f"{missing}: no such file or folder; to wait for it, give its folder",
        f"{log.with_name('also')}: no such file or folder; to wait for it, give its folder",
    ]


def test_more_files_than_may_be_open_are_read(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.log").write_bytes(b"%d\n" % number)
    rounds = Rounds(tmp_path)
    rounds.sources._open_files._most = 4
    assert len(rounds.run()) == 40
    rounds.run(QUIET_ROUNDS)
    for number in range(40):
        append(tmp_path / f"{number}.log", b"new %d\n" % number)
    assert sorted(rounds.run()) == sorted(b"new %d" % number for number in range(40))


def test_a_line_of_a_quiet_file_is_read_in_the_next_round_and_others_are_left_alone(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}.log").write_bytes(b"%d\n" % number)
    rounds = Rounds(tmp_path)
    rounds.run(QUIET_ROUNDS)
    append(tmp_path / "77.log", b"new\n")
    before = rounds.reads
    assert rounds.run() == [b"new"]
    assert rounds.reads - before <= 1 + 200 * ROUND_NS / Due.RARELY.value + 1


def test_a_new_file_is_found_soon_and_a_listing_without_changes_is_rare(log: Path) -> None:
    rounds = Rounds(log.parent)
    rounds.run(QUIET_ROUNDS)
    log.with_name("b.log").write_bytes(b"b\n")
    assert rounds.run(12) == [b"b"]


@pytest.mark.parametrize("limit", ["max_user_instances", "max_user_watches"])
def test_beyond_the_limits_of_the_kernel_files_are_polled_in_turn(
    log: Path, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Limited(folder_watch.INotify):
        def __init__(self, nonblocking: bool):
            if limit == "max_user_instances":
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            super().__init__(nonblocking=nonblocking)

        def add_watch(self, path: str, mask: int) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(folder_watch, "INotify", Limited)
    rounds = Rounds(log.parent)
    assert f"fs.inotify.{limit}" in rounds.sources.watch_fault
    rounds.run(QUIET_ROUNDS)
    append(log, b"2\n")
    log.with_name("b.log").write_bytes(b"b\n")
    assert sorted(rounds.run(21)) == [b"2", b"b"]


def test_after_more_changes_than_the_kernel_keeps_all_files_are_polled(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(log.parent)
    rounds.run(QUIET_ROUNDS)
    kept = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with log.open("ab") as file, log.with_name("b.log").open("ab") as other:
        for _ in range(kept // 2 + 1):
            other.write(b"x\n")
            other.flush()
            file.write(b"y\n")
            file.flush()
    log.with_name("c.log").write_bytes(b"c\n")
    assert rounds.run(12).count(b"c") == 1
