"""Bytes kept on this machine between runs, so that work is done once. A lost or broken entry costs time only."""

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
"""What was not used for longest goes when a kind of entry takes more than this."""
SHIPPED: Final = Path(sys.prefix) / "share" / "epicenter"
"""What was kept when an image was built. Nobody writes there later."""


def digest(parts: Iterable[bytes]) -> str:
    """A name for these parts in this order: others have another one."""
    hashed = blake2b(digest_size=16)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()


def load(kind: str, name: str) -> bytes | None:
    """What was kept under this name; None without it."""
    try:
        file = _folder(kind) / name
        content = file.read_bytes()
    except (OSError, RuntimeError):
        return _shipped(kind, name)
    with suppress(OSError):
        os.utime(file)
    return content


def store(kind: str, name: str, content: bytes) -> None:
    """Keep it in one step, so that nobody reads half of it. A machine without a writable cache keeps nothing."""
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
