"""The stored state of the alerts: records by key, written before anything is sent."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from epicenter.rules.errors import ConfigError, TransientError
from epicenter.sinks.private_files import private_file, private_folder

Records = Mapping[str, bytes | None]
"""By key; None deletes the record."""


class Journal(Protocol):
    """Stores the state of the alerts for one owner at a time."""

    async def load(self) -> dict[str, bytes]:
        """Every record."""

    async def write(self, records: Records) -> None:
        """Store the records in order. When this returns, they survive a crash."""

    async def close(self) -> None:
        """Close it."""


class FileJournal:
    """A SQLite file, for one process on one machine, that only its user can read."""

    def __init__(self, file: Path):
        private_folder(file.parent)
        self._file = file
        self._connection: sqlite3.Connection | None = None

    async def load(self) -> dict[str, bytes]:
        """Every record.

        Raises:
            ConfigError: the file is not a journal, or can't be read.
        """
        return await asyncio.to_thread(self._load)

    async def write(self, records: Records) -> None:
        """All of the records, or none.

        Raises:
            TransientError: the disk is full, or another process has locked the file.
        """
        await asyncio.to_thread(self._write, records)

    async def close(self) -> None:
        """Close the file."""
        if self._connection:
            self._connection.close()

    def _load(self) -> dict[str, bytes]:
        try:
            private_file(self._file)
            self._connection = sqlite3.connect(self._file, check_same_thread=False)
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
            return dict(self._connection.execute("SELECT key, value FROM records ORDER BY rowid"))
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(
                [f"{self._file}: can't be used: {error}; move it elsewhere; open incidents are then notified again"]
            ) from error

    def _write(self, records: Records) -> None:
        assert self._connection
        deleted = [(key,) for key, value in records.items() if value is None]
        stored = [(key, value) for key, value in records.items() if value is not None]
        try:
            with self._connection:
                self._connection.executemany("DELETE FROM records WHERE key = ?", deleted)
                self._connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?)", stored)
        except sqlite3.Error as error:
            raise TransientError(
                f"{self._file}: can't be written: {error}; the newest notifications are not saved"
            ) from error
