"""Folders and files that only the user of this process can read."""

from __future__ import annotations

import os
from pathlib import Path


def private_folder(folder: Path) -> None:
    """Make the folder, and those above it that are missing. A folder that is there keeps its mode.

    Raises:
        OSError: it can't be made.
    """
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def private_file(file: Path) -> None:
    """Make the file unless it is there, and take it from all other users, as others may have it of older versions.

    Raises:
        OSError: it can't be made, or it is another user's.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def write_private(file: Path, text: str) -> None:
    """Write a new file in place of what is there, such as a link.

    Raises:
        OSError: it can't be written.
    """
    file.unlink(missing_ok=True)
    file.touch(0o600, exist_ok=False)
    file.write_text(text)
