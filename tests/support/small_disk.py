"""A disk of its own that can be made full, where this machine lets us mount one in memory."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path


class SmallDisk:
    """A folder on a disk of its own; `is_own` is false where none could be mounted, and then it is never full."""

    def __init__(self, folder: Path, is_own: bool):
        self.folder, self.is_own = folder, is_own
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave no byte free."""
        if self.is_own:
            with self._ballast.open("ab", buffering=0) as file:
                while _writes(file, b"\0" * (1 << 20)) or _writes(file, b"\0" * 4096):
                    pass

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mount it at the folder, which is made, for as long as this lasts."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    try:
        is_own = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_own = False
    try:
        yield SmallDisk(folder, is_own)
    finally:
        if is_own:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _writes(file: FileIO, block: bytes) -> bool:
    try:
        return bool(file.write(block))
    except OSError:
        return False
