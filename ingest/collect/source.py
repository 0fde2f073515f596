"""What every reader offers: the next batch, without waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.files import FileSource, log_files, unrotated
from epicenter.ingest.collect.journal import JournalSource
from epicenter.ingest.collect.kmsg import DEVICE, KmsgSource
from epicenter.ingest.collect.pipe import PipeSource
from epicenter.rules.errors import InputError


class Source(Protocol):
    """A place where lines come from."""

    name: str

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can come."""

    def read(self, now_ns: int) -> Batch | None:
        """The next lines, or None when there are none now."""

    def close(self) -> None:
        """Close files and end processes."""


class Sources:
    """All sources of a run. `open_new_files` finds those that appear in folders later.

    `host` is this machine if its files are local; empty if they may come from anywhere.
    """

    def __init__(self, paths: list[str], host: str, follow: bool):
        self._host = host
        self._follow = follow
        self._folders = [Path(path) for path in paths if path != "-" and Path(path).is_dir()]
        self._by_name: dict[str, Source] = {}
        missing = [path for path in paths if path != "-" and not Path(path).exists()]
        if missing:
            raise InputError("\n".join(f"{path}: no such file or folder" for path in missing))
        if "-" in paths:
            self._add(PipeSource(host))
        for path in paths:
            if path != "-" and not Path(path).is_dir():
                self._add(_file(Path(path), host, follow))
        if not paths:
            self._add(_machine_log(host, follow))
        self.open_new_files()

    def all(self) -> list[Source]:
        """Every source, in the order in which they were found."""
        return list(self._by_name.values())

    def open_new_files(self) -> None:
        """Open the log files that have appeared in the folders. A followed file was read before it was rotated away."""
        for folder in self._folders:
            for file in log_files(folder):
                is_read = self._follow and unrotated(file) != file and self._has_or_is(unrotated(file))
                if str(file) not in self._by_name and not is_read:
                    self._add_if_still_there(file, folder)

    def close(self) -> None:
        """Close every source."""
        for source in self.all():
            source.close()

    def _has_or_is(self, file: Path) -> bool:
        return str(file) in self._by_name or file.exists()

    def _add_if_still_there(self, file: Path, folder: Path) -> None:
        try:
            self._add(FileSource(file, self._host, self._follow, folder))
        except InputError:
            if file.exists():
                raise

    def _add(self, source: Source) -> None:
        self._by_name[source.name] = source


def _file(path: Path, host: str, follow: bool) -> Source:
    if path == DEVICE:
        return KmsgSource(host, follow)
    if not path.is_file():
        raise InputError(f"{path}: neither a file nor a folder: pipe it in, and give - as the PATH")
    return FileSource(path, host, follow)


def _machine_log(host: str, follow: bool) -> Source:
    if JournalSource.is_readable():
        return JournalSource(follow)
    if KmsgSource.is_readable():
        return KmsgSource(host, follow)
    raise InputError(
        "neither the journal nor /dev/kmsg can be read here: give log files or folders, "
        "or run as a user who may read them (root, or group systemd-journal)"
    )
