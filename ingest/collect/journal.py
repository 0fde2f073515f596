"""The systemd journal of this machine, through `journalctl -o json`."""

from __future__ import annotations

import shutil
import subprocess

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.pipe import PipeSource


class JournalSource:
    """Entries of the current boot, or new ones as they come, each as journald's own JSON."""

    def __init__(self, follow: bool):
        command = ["journalctl", "-o", "json", "--no-pager", *(["--follow", "--lines=0"] if follow else ["--boot"])]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None
        self._pipe = PipeSource("", self._process.stdout.fileno(), "journal")
        self.name = self._pipe.name
        self.fault = ""

    @staticmethod
    def is_readable() -> bool:
        """Whether there is a journal with at least one entry that this user may read."""
        if not shutil.which("journalctl"):
            return False
        probe = ["journalctl", "-o", "json", "--no-pager", "--lines=1"]
        return bool(subprocess.run(probe, capture_output=True, check=False).stdout.startswith(b"{"))

    @property
    def has_ended(self) -> bool:
        """Whether journalctl has ended."""
        return self._pipe.has_ended

    def read(self, now_ns: int) -> Batch | None:
        """The entries that have come."""
        return self._pipe.read(now_ns)

    def close(self) -> None:
        """End journalctl."""
        self._process.terminate()
        self._process.wait()
