"""A separate disk that a test can fill, where this machine lets us mount one in memory."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path


class SmallDisk:
    """A folder on a separate disk; `is_own` is false where none could be mounted, and then it is never full."""

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
    """Make the folder and mount the disk there until the end of the `with`."""
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


def on_own_disk(folder: Path, size_bytes: int, command: Sequence[str | Path]) -> list[str | Path]:
    """The command with a separate disk at the folder, which only it sees; needs no rights but user namespaces."""
    script = f'mount -t tmpfs -o size={size_bytes} tmpfs "$0" && exec "$@"'
    return ["unshare", "-rm", "sh", "-c", script, folder, *command]


def disk_of(process: subprocess.Popen[str], folder: Path) -> SmallDisk:
    """The disk of a running command that was started `on_own_disk`."""
    return SmallDisk(Path(f"/proc/{process.pid}/root{folder}"), is_own=True)


def why_no_own_disk(folder: Path) -> str:
    """Why no command can run `on_own_disk` here; empty if it can."""
    try:
        tried = subprocess.run(on_own_disk(folder, 1 << 20, ["true"]), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "needs `unshare` of util-linux"
    return tried.stderr and f"needs user namespaces that may mount: {tried.stderr.strip()}"
