"""The journal of notifications, which names people's incidents and targets, is its user's alone."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.stream.alerts.journal import FileJournal


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_a_new_journal_and_its_folder_are_private(tmp_path: Path) -> None:
    file = tmp_path / "data" / "alerts.sqlite"
    umask = os.umask(0)
    try:
        journal = FileJournal(file)
        await journal.load()
    finally:
        os.umask(umask)
    await journal.close()
    assert (modes(tmp_path), modes(file.parent)) == ({"data": 0o700}, {"alerts.sqlite": 0o600})


async def test_a_journal_of_an_older_version_becomes_private_with_the_files_next_to_it(tmp_path: Path) -> None:
    file = tmp_path / "alerts.sqlite"
    with closing(sqlite3.connect(file)) as older:
        older.execute("PRAGMA journal_mode = WAL")
        older.execute("CREATE TABLE records (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
    file.chmod(0o644)
    journal = FileJournal(file)
    await journal.load()
    await journal.write({"incident/a": b"{}"})
    assert modes(tmp_path) == {"alerts.sqlite": 0o600, "alerts.sqlite-wal": 0o600, "alerts.sqlite-shm": 0o600}
    await journal.close()


async def test_a_journal_that_is_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "alerts.sqlite").mkdir()
    with pytest.raises(ConfigError, match="can't be used"):
        await FileJournal(tmp_path / "alerts.sqlite").load()
