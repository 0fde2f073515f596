"""Commands that serve the page, as separate processes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.dev.process import EPICENTER


@contextmanager
def epicenter(folder: Path, *arguments: object, ends_by: int = signal.SIGTERM) -> Iterator[str]:
    """A command that serves the page, in the background; the address of its page, without the last slash."""
    log = folder / "epicenter.log"
    with log.open("wb") as out:
        process = subprocess.Popen([*EPICENTER, *map(str, arguments)], stdout=out, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    try:
        printed = ""
        while not (line := process.stderr.readline()).startswith("incidents: http://127.0.0.1:"):
            printed += line
            assert line, printed
        yield line.split()[1].rstrip("/")
    finally:
        process.send_signal(ends_by)
        process.communicate(timeout=60)
