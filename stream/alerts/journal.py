"""The stored state of the alerts: records by key, written before anything is sent."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from epicenter.rules.errors import ConfigError
from epicenter.sinks.log import get_logger
from epicenter.sinks.private_files import private_file, private_folder

log: Final = get_logger(__name__)

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
    """A SQLite file, for one process on one machine, that only its user can read.

    While the file can't be written, as on a full disk, records wait in memory: a notification that is sent twice with
    the same id does less harm than one that is not sent. `fault` is then the reason, else empty.
    """

    def __init__(self, file: Path):
        private_folder(file.parent)
        self.fault = ""
        self._file = file
        self._connection: sqlite3.Connection | None = None
        self._unwritten: dict[str, bytes | None] = {}
        self._writing = asyncio.Lock()

    async def load(self) -> dict[str, bytes]:
        """Every record.

        Raises:
            ConfigError: the file is not a journal, or can't be read.
        """
        return await asyncio.to_thread(self._load)

    async def write(self, records: Records) -> None:
        """Write all of the records, with those that still wait; all wait if the file can't be written."""
        async with self._writing:
            self._unwritten.update(records)
            if self._unwritten:
                await asyncio.to_thread(self._write, self._unwritten)

    async def flush(self) -> None:
        """Write the records that wait, if there are any."""
        await self.write({})

    async def close(self) -> None:
        """Write the records that wait, and close the file."""
        await self.flush()
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

    def _write(self, records: dict[str, bytes | None]) -> None:
        assert self._connection
        deleted = [(key,) for key, value in records.items() if value is None]
        stored = [(key, value) for key, value in records.items() if value is not None]
        try:
            with self._connection:
                self._connection.executemany("DELETE FROM records WHERE key = ?", deleted)
                self._connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?)", stored)
        except sqlite3.Error as error:
            self._note_fault(f"{self._file}: can't be written: {error}")
        else:
            records.clear()
            self._note_fault("")

    def _note_fault(self, fault: str) -> None:
        if fault and not self.fault:
            log.warning("alert_journal_not_written", error=fault, detail="notifications are sent from memory")
        elif self.fault and not fault:
            log.warning("alert_journal_written_again", file=str(self._file))
        self.fault = fault
