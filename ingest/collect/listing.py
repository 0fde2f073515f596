"""Which files of a folder are logs: by their names, or by their first lines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from epicenter.ingest.collect.by_content import begins_like_a_log
from epicenter.ingest.collect.rotation import oldest_first, unpacked_name, without_rotation

LOG_SUFFIXES: Final = (
    *(".log", ".out", ".err", ".stdout", ".stderr", ".txt", ".jsonl", ".ndjson"),
    *(".dmesg", ".kern", ".kmsg", ".syslog", ".messages"),
)
_OUTPUT_OF_PBS = re.compile(r"\.(?:po|pe|o|e)\d{1,10}(?:[.-]\d{1,6})?$")
"""What PBS and Grid Engine append to a job's name: `llama.o7877`."""

OnError = Callable[[OSError], None]
OnFolder = Callable[[str], None]


def _ignore(_: object) -> None:
    pass


def log_files(
    folder: Path, on_error: OnError = _ignore, on_folder: OnFolder = _ignore, known: Container[str] = ()
) -> Iterator[Path]:
    """The files below a folder that are logs by their names or first lines, in order; rotated and packed ones too."""
    files = files_in(folder, on_error, on_folder, known)
    return (file for file in files if is_log(file.name) or begins_like_a_log(file))


def files_in(
    folder: Path, on_error: OnError = _ignore, on_folder: OnFolder = _ignore, known: Container[str] = ()
) -> Iterator[Path]:
    """All files below a folder but hidden ones, in order, rotated ones oldest first, broken links too.

    Those whose paths are `known` are left out. `on_folder` gets each folder that could be listed.
    """
    entries = (entry for entry in _entries(folder, on_error, on_folder) if entry.path.removeprefix("./") not in known)
    return iter(sorted((Path(entry.path) for entry in entries if _is_file(entry, on_error)), key=oldest_first))


@lru_cache(maxsize=1 << 16)
def is_log(name: str) -> bool:
    """Whether a file's name is that of a log: `a.log`, `syslog`, `a.log.1`, `messages-20260301.gz`, `llama.o7877`."""
    unpacked = unpacked_name(name)
    original = without_rotation(unpacked)
    is_bare = Path(original).suffix == "" and (unpacked == name or original != unpacked)
    return Path(original).suffix in LOG_SUFFIXES or is_bare or bool(_OUTPUT_OF_PBS.search(unpacked))


def _entries(folder: Path, on_error: OnError, on_folder: OnFolder) -> Iterator[os.DirEntry[str]]:
    """What is in a folder and those below it, other than folders and what is hidden."""
    folders = [str(folder)]
    while folders:
        at = folders.pop()
        try:
            with os.scandir(at) as found:
                entries = list(found)
        except OSError as error:
            on_error(error)
            continue
        on_folder(at)
        for entry in entries:
            if not _is_folder(entry):
                if not entry.name.startswith("."):
                    yield entry
            elif not entry.is_symlink():
                folders.append(entry.path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str], on_error: OnError) -> bool:
    """Whether it is a file, or a link to one or to nothing."""
    try:
        return entry.is_file() or (entry.is_symlink() and not Path(entry.path).exists())
    except OSError as error:
        on_error(error)
        return False
