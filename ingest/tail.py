"""The end of a log file: its last lines, and whether it was cut off in the middle of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TAIL_BYTES: Final = 16 << 10
TAIL_LINES: Final = 5


def last_lines(file: Path) -> tuple[tuple[str, ...], bool]:
    """The last lines that are not blank, oldest first, and whether the file ends without a newline."""
    with file.open("rb") as opened:
        opened.seek(max(0, os.fstat(opened.fileno()).st_size - TAIL_BYTES))
        end = opened.read(TAIL_BYTES)
    lines = [line for line in end.decode("utf-8", "replace").splitlines() if line.strip()]
    return tuple(lines[-TAIL_LINES:]), bool(end) and not end.endswith(b"\n")
