"""Rotated logs: what their names mean, and where a file is by now, by its inode."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from epicenter.ingest.provenance.log_names import PACKED, ROTATION

_PACKED = re.compile(f"{PACKED}$")
_ROTATED = re.compile(f"{ROTATION}$")
MAX_NUMBER_DIGITS: Final = 6
"""A rotation with more digits is a date, in which later ones are newer."""


def unpacked_name(name: str) -> str:
    """The name without the ending of a packed file."""
    return _PACKED.sub("", name)


def without_rotation(name: str) -> str:
    """The name without what rotation appended to it."""
    return _ROTATED.sub("", name)


def is_packed(file: Path) -> bool:
    """Whether a file's name is that of a compressed one."""
    return bool(_PACKED.search(file.name))


def unrotated(file: Path) -> Path:
    """The file whose older lines are here: `a.log` for `a.log.1` and `a.log.2.gz`; any other file is itself."""
    return file.with_name(without_rotation(unpacked_name(file.name)))


def oldest_first(file: Path) -> tuple[Path, bool, int, Path]:
    """A key that puts `a.log.10.gz`, `a.log.2`, `a.log-20260301`, `a.log` in this order."""
    rotation = _ROTATED.search(unpacked_name(file.name))
    number = rotation[0][1:].replace("-", "") if rotation else "0"
    is_date = len(number) > MAX_NUMBER_DIGITS
    return unrotated(file), not rotation, int(number.ljust(14, "0")) if is_date else -int(number), file


def inode_of(file: Path) -> int | None:
    """The number of the file at a path; None if there is none."""
    try:
        return file.stat().st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None


def path_of(log: Path, inode: int) -> Path | None:
    """Where the file with this inode is now: at the log's path, or in its folder; None if it is not there.

    Raises:
        OSError: the folder can't be read.
    """
    likely = (log, log.with_name(f"{log.name}.1"))
    return next((file for file in likely if inode_of(file) == inode), None) or _in_folder(log.parent, inode)


def newer_than(log: Path, inode: int) -> list[Path]:
    """The files of a rotated log that were written after the one with this inode, oldest first; none if it is gone.

    Some programs give a newer file a higher number: so the time of the last write counts too.

    Raises:
        OSError: the folder can't be read.
    """
    if inode_of(log.with_name(f"{log.name}.1")) == inode:
        return [log]
    with os.scandir(log.parent) as entries:
        found = {Path(entry.path): entry.stat() for entry in entries if entry.name.startswith(log.name)}
    files = sorted((file for file in found if unrotated(file) == log and not is_packed(file)), key=oldest_first)
    inodes = [found[file].st_ino for file in files]
    if inode not in inodes:
        return []
    place = inodes.index(inode)
    written_ns = found[files[place]].st_mtime_ns
    return [file for file in files[place + 1 :] if found[file].st_mtime_ns >= written_ns]


def _in_folder(folder: Path, inode: int) -> Path | None:
    try:
        with os.scandir(folder) as entries:
            return next((Path(entry.path) for entry in entries if entry.inode() == inode), None)
    except FileNotFoundError:
        return None
