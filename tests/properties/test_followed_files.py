"""A followed file gives each line once and in order, whatever happens to its path between two reads."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from epicenter.ingest.collect.files import FileSource
from epicenter.ingest.collect.open_files import OpenFiles
from epicenter.rules.errors import InputError
from tests.support.privileges import without_privileges

STEPS = ("write", "rotate", "truncate", "close", "block", "forbid", "forbid_folder", "restore", "poll", "poll")
MAX_KEPT = 9


class Writer:
    """Writes numbered lines into a log, rotates it as logrotate does, and puts other things in its place."""

    def __init__(self, folder: Path):
        self.log = folder / "a.log"
        self.log.write_bytes(b"")
        self.written = 0
        self._aside: Path | None = None

    def write(self) -> None:
        if self._aside is None:
            with self.log.open("ab") as file:
                file.write(b"line %d\n" % self.written)
            self.written += 1

    def rotate(self) -> None:
        self._allow()
        if self._aside is None:
            for number in range(MAX_KEPT, 0, -1):
                if (older := self.log.with_name(f"a.log.{number}")).exists():
                    older.rename(self.log.with_name(f"a.log.{number + 1}"))
            self.log.rename(self.log.with_name("a.log.1"))
            self.log.write_bytes(b"")

    def truncate(self) -> None:
        if self._aside is None:
            os.truncate(self.log, 0)

    def block(self) -> None:
        """A folder, or a packed file, takes the place of the log."""
        if self._aside is None:
            self._aside = self.log.rename(self.log.with_name("aside"))
            if self.written % 2:
                self.log.mkdir()
            else:
                self.log.write_bytes(b"\x1f\x8b\x08\0")

    def forbid(self) -> None:
        self.log.chmod(0)

    def forbid_folder(self) -> None:
        self.log.parent.chmod(0o600)

    def _allow(self) -> None:
        self.log.parent.chmod(0o755)
        self.log.chmod(0o755)

    def restore(self) -> None:
        self._allow()
        if self._aside is not None:
            self.log.rmdir() if self.log.is_dir() else self.log.unlink()
            self._aside.rename(self.log)
            self._aside = None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=40))
def test_each_line_comes_once_and_in_order(steps: list[str]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="epicenter-"))
    try:
        expected, found = played(folder, steps)
        assert found == expected
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def played(folder: Path, steps: list[str]) -> tuple[list[bytes], list[bytes]]:
    """The lines that could be read, and those that were. A truncation loses what no poll has seen."""
    writer, open_files = Writer(folder), OpenFiles(1)
    source = FileSource(writer.log, "n1", follow=True, root=folder, open_files=open_files)
    found: list[bytes] = []
    for step in steps:
        if step == "poll":
            found += polled(source)
        elif step == "close":
            open_files.close(source._growing)
        elif step == "truncate":
            writer.restore()
            found += polled(source)
            writer.truncate()
            found += polled(source)
        else:
            getattr(writer, step)()
    writer.restore()
    found += polled(source)
    source.close()
    return [b"line %d" % number for number in range(writer.written)], found


def polled(source: FileSource) -> list[bytes]:
    """What reading gives until nothing comes; a file that can't be read gives nothing, and says so."""
    with without_privileges():
        return read_until_quiet(source)


def read_until_quiet(source: FileSource) -> list[bytes]:
    found: list[bytes] = []
    idle = 0
    while idle < 2:
        try:
            batch = source.read(0)
        except (OSError, InputError):
            return found
        found += [batch.values[place] for place in range(len(batch))] if batch else []
        idle = 0 if batch else idle + 1
    return found
