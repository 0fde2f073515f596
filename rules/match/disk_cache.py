"""A cache of bytes on this machine's disk. A lost or broken entry costs only time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from platformdirs import user_cache_path

MAX_FOLDER_BYTES: Final = 256 << 20
"""When entries of a kind exceed this, the least recently used are deleted."""
SHIPPED: Final = Path(sys.prefix) / "share" / "epicenter"
"""Entries that were stored when an image was built; read-only later."""


def digest(parts: Iterable[bytes]) -> str:
    """A digest of these parts in this order, as a name."""
    hashed = blake2b(digest_size=16)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()


def load(kind: str, name: str) -> bytes | None:
    """The content stored under this name; None if there is none."""
    try:
        file = _folder(kind) / name
        content = file.read_bytes()
    except (OSError, RuntimeError):
        return _shipped(kind, name)
    with suppress(OSError):
        os.utime(file)
    return content


def store(kind: str, name: str, content: bytes) -> None:
    """Store it atomically. Without a writable cache folder, nothing is stored."""
    try:
        folder = _folder(kind)
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder, delete=False) as new:
            new.write(content)
        Path(new.name).replace(folder / name)
        _make_room(folder)
    except (OSError, RuntimeError):
        return


def _shipped(kind: str, name: str) -> bytes | None:
    try:
        return (SHIPPED / kind / name).read_bytes()
    except OSError:
        return None


def _make_room(folder: Path) -> None:
    files = [(file, file.stat()) for file in folder.iterdir()]
    left_bytes = MAX_FOLDER_BYTES
    for file, stat in sorted(files, key=lambda entry: entry[1].st_mtime_ns, reverse=True):
        left_bytes -= stat.st_size
        if left_bytes < 0:
            file.unlink(missing_ok=True)


def _folder(kind: str) -> Path:
    """Raises RuntimeError for a user without a home."""
    return user_cache_path("epicenter") / kind
