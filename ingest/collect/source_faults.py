"""Sources that can't be read for now: since when and why, when each is tried again, and what begins and ends."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from epicenter.ingest.provenance.log_file import read_fault, utf8_text
from epicenter.rules.errors import InputError
from epicenter.rules.model.times import NS_PER_S

FIRST_PAUSE_NS: Final = NS_PER_S
MAX_PAUSE_NS: Final = 16 * NS_PER_S
_ADVICE: Final = {
    errno.EACCES: "give this user the right to read it, and to enter its folder",
    errno.EPERM: "give this user the right to read it",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`, or LimitNOFILE in the unit)",
    errno.ENFILE: "raise the limit of open files of this machine (sysctl fs.file-max)",
    errno.EIO: "check its disk or mount",
    errno.ESTALE: "mount its file system again",
    errno.ENOTCONN: "mount its file system again",
}


class SourceFault(NamedTuple):
    """Why a source can't be read, in a sentence, since when by the clock, and how often it was tried."""

    name: str
    text: str
    begins_ns: int
    tries: int


class FaultChange(NamedTuple):
    """A fault that began, or ended if `ends_ns` is not 0. `lost_bytes` were removed before they were read."""

    fault: SourceFault
    ends_ns: int = 0
    lost_bytes: int = 0


class SourceFaults:
    """The faults of followed sources, by name. Each begins once and ends once, however often it is tried between."""

    def __init__(self) -> None:
        self._failing: dict[str, SourceFault] = {}
        self._retry_ns: dict[str, int] = {}
        self._changes: list[FaultChange] = []
        self._lost_bytes: dict[str, int] = {}
        self.begun = 0

    @property
    def failing(self) -> Mapping[str, SourceFault]:
        """What can't be read now."""
        return self._failing

    def is_paused(self, name: str, round_ns: int) -> bool:
        """Whether it is too early to try it again."""
        return round_ns < self._retry_ns.get(name, 0)

    def fail(self, name: str, text: str, now_ns: int, round_ns: int) -> None:
        """It could not be read: the pause before the next try is twice the one before."""
        known = self._failing.get(name)
        fault = SourceFault(
            utf8_text(name), utf8_text(text), known.begins_ns if known else now_ns, known.tries + 1 if known else 1
        )
        self._failing[name] = fault
        self._retry_ns[name] = round_ns + min(MAX_PAUSE_NS, FIRST_PAUSE_NS << min(fault.tries - 1, 10))
        if known is None:
            self.begun += 1
            self._changes.append(FaultChange(fault))

    def recover(self, name: str, now_ns: int, lost_bytes: int = 0) -> None:
        """It could be read. So many bytes of it were lost since the start."""
        newly_lost = lost_bytes - self._lost_bytes.get(name, 0)
        if name not in self._failing and not newly_lost:
            return
        if newly_lost:
            self._lost_bytes[name] = lost_bytes
        self._retry_ns.pop(name, None)
        removed = SourceFault(utf8_text(name), utf8_text(f"{name}: removed before it was read"), now_ns, 0)
        fault = self._failing.pop(name, None) or removed
        self._changes.append(FaultChange(fault, now_ns, newly_lost))

    def take_changes(self) -> list[FaultChange]:
        """What began and ended since the last call."""
        changes, self._changes = self._changes, []
        return changes


def fault_text(name: str, error: Exception) -> str:
    """Why a source can't be read and what to do, in a sentence that begins with its name."""
    if isinstance(error, InputError) or not isinstance(error, OSError):
        return str(error)
    advice = _ADVICE.get(error.errno or 0, "")
    at = name if not error.filename or Path(name).is_relative_to(str(error.filename)) else error.filename
    return f"{at}: {read_fault(error)}" + (f": {advice}" if advice else "")
