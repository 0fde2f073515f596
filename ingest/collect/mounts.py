"""Whether the kernel sees every write to a folder's files: not those of other machines to a shared file system."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mountinfo")
LOCAL: Final = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "ramfs", "overlay"))


def is_local(folder: str) -> bool:
    """Whether only this machine writes into the folder, as far as is known."""
    try:
        return _is_local(Path(folder).stat().st_dev)
    except OSError:
        return False


@lru_cache(maxsize=1 << 10)
def _is_local(number: int) -> bool:
    device, lines = f"{os.major(number)}:{os.minor(number)}", MOUNTS.read_text(errors="replace").splitlines()
    return any(_type(line) in LOCAL for line in lines if line.split()[2] == device)


def _type(line: str) -> str:
    """The type of the file system in a line of mountinfo (proc_pid_mountinfo(5))."""
    return line.partition(" - ")[2].split(" ", 1)[0]
