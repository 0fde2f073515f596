"""The embedded engine: its folder, its lock, and what it says of damaged files."""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryFile
from typing import Any, Final

import clickhouse_connect
from clickhouse_connect.driver import exceptions as library

from epicenter.rules.errors import ConfigError, TransientError
from epicenter.sinks.clickhouse.dsn import StoreTarget
from epicenter.sinks.clickhouse.errors import StoreDamagedError, StoreFullError, StoreInUseError
from epicenter.sinks.log import get_logger
from epicenter.sinks.private_files import private_folder

log: Final = get_logger(__name__)

NEEDED_BYTES: Final = 2 << 20
"""A store that is made with less room ends half-made, and can never be read again."""

_LOADING: Final = re.compile(r"Load job 'load table \w+\.(?P<table>\w+)' failed|\(in file [^)]*?/(?P<file>\w+)\.sql\)")
"""The engine's message when it can't load a table, or read the definition of a table or of the database."""


def open_embedded(target: StoreTarget) -> Any:
    """The library's client for the embedded engine.

    Raises:
        ConfigError: the folder can't be used, or the engine is not installed.
        StoreInUseError: another process has it open.
        StoreDamagedError: the engine can't read its files.
        StoreFullError: the disk has no room for a new store.
        TransientError: it can't be opened for another reason.
    """
    if target.folder is not None:
        _prepare_folder(target.folder)
        _refuse_if_in_use(target.folder)
        if not (target.folder / "metadata").exists() and disk_usage(target.folder).free < NEEDED_BYTES:
            raise StoreFullError(target.address)
    try:
        with _engine_output() as output:
            return clickhouse_connect.get_client(**target.arguments, settings={"async_insert": 0})
    except ImportError as error:
        raise ConfigError(
            [f"{target.address}: the embedded engine is not installed; pip install 'epicenter[local]'"]
        ) from error
    except library.ProgrammingError as error:
        if "already initialized with path" in str(error):
            raise ConfigError(
                [f"{target.address}: this process has another embedded store open; one process can open only one"]
            ) from error
        if target.folder is not None:
            _refuse_if_in_use(target.folder)
            if (table := _damaged_table("".join(output))) is not None:
                raise StoreDamagedError(target.folder, table) from error
        raise TransientError(
            f"{target.address}: the embedded store can't be opened; check the folder's owner and the free space"
        ) from error


def _prepare_folder(folder: Path) -> None:
    try:
        private_folder(folder)
    except OSError as error:
        raise ConfigError([f"{folder}: can't be used as the store's folder: {error.strerror}"]) from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError([f"{folder}: can't be used as the store's folder: not writable for this user"])


def _refuse_if_in_use(folder: Path) -> None:
    """Check the engine's lock first: the engine itself would only print to stderr."""
    try:
        with (folder / "status").open("rb") as status:
            try:
                fcntl.flock(status, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found = re.search(rb"PID: (\d+)", status.read(200))
                process = int(found[1]) if found else None
                if process != os.getpid():
                    raise StoreInUseError(folder, process) from None
    except OSError:
        return


@contextmanager
def _engine_output() -> Iterator[list[str]]:
    """Keeps what is written to standard error: the engine prints there why it can't open its folder.

    It is passed on unless the block fails.
    """
    output: list[str] = []
    if sys.stderr is None:  # standard error is closed
        yield output
        return
    sys.stderr.flush()
    with TemporaryFile() as kept:
        own = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield output
        finally:
            os.dup2(own, 2)
            os.close(own)
            kept.seek(0)
            output.append(kept.read().decode(errors="replace"))
    os.write(2, output[0].encode())


def _damaged_table(output: str) -> str | None:
    """The table, or the database, whose files the engine can't read; None if its output is about something else."""
    found = _LOADING.search(output)
    return found and (found["table"] or found["file"])


def log_lost_rows(backend: Any, database: str, folder: Path) -> None:
    """Log a warning if the engine has set damaged files aside: rows are missing, and a short list is no all-clear."""
    found = backend.query(
        "SELECT table, count() FROM system.detached_parts WHERE database = {database:String}"
        " AND startsWith(ifNull(reason, ''), 'broken') GROUP BY table ORDER BY table",
        parameters={"database": database},
    ).result_rows
    if found:
        tables = ", ".join(str(table) for table, _ in found)
        log.warning(
            f"{folder}: rows are missing: {sum(parts for _, parts in found)} damaged parts of {tables} were set aside;"
            " restore the folder from a copy, or read the logs again with `epicenter run --once` into a new one"
        )
