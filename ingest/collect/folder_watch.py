"""Changes of files as the kernel reports them for their folders (inotify), without looking at the files."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from epicenter.ingest.collect.mounts import is_local

if sys.platform == "linux":
    from inotify_simple import INotify, flags

    _WRITTEN = flags.MODIFY | flags.ATTRIB
    _LISTED = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
    _ENDED = flags.MOVE_SELF | flags.DELETE_SELF | flags.UNMOUNT
    _WATCHED = _WRITTEN | _LISTED | _ENDED | flags.ONLYDIR | flags.EXCL_UNLINK


class Changes(NamedTuple):
    """The files that changed. `is_listing_changed`: some came, went or were renamed. `are_all`: nothing was missed."""

    files: frozenset[str] = frozenset()
    is_listing_changed: bool = False
    are_all: bool = True


class FolderWatch:
    """Watches folders as far as the kernel lets it: news of files in the others is found by looking at them.

    `fault` is why folders are not watched, in a sentence.
    """

    def __init__(self) -> None:
        self.fault = ""
        self._paths: dict[int, set[str]] = {}
        self._watched: dict[str, bool] = {}
        self._inotify: INotify | None = None
        if sys.platform != "linux":
            return
        try:
            self._inotify = INotify(nonblocking=True)
        except OSError:
            self.fault = _limit_fault("max_user_instances")

    @property
    def is_limited(self) -> bool:
        """Whether folders are not watched that could be."""
        return self._inotify is None or bool(self.fault)

    @property
    def is_complete(self) -> bool:
        """Whether all changes of all folders will be reported."""
        return not self.is_limited and all(self._watched.values())

    def __contains__(self, folder: str) -> bool:
        return folder in self._watched

    def watch(self, folder: str) -> bool:
        """Watch a folder, without those below it; whether all changes of its files will be reported."""
        if folder in self._watched:
            return self._watched[folder]
        if self._inotify is None:
            return False
        try:
            number = self._inotify.add_watch(folder, _WATCHED)
        except OSError as error:
            self.fault = _limit_fault("max_user_watches") if error.errno == errno.ENOSPC else self.fault
            return False
        self._watched[folder] = is_local(folder)
        self._paths.setdefault(number, set()).add(folder)
        return self._watched[folder]

    def changes(self) -> Changes:
        """What changed since the last call, without waiting."""
        if self._inotify is None:
            return Changes()
        events = self._inotify.read(timeout=0)
        if any(event.mask & flags.Q_OVERFLOW for event in events):
            return Changes(is_listing_changed=True, are_all=False)
        files = frozenset(path for event in events for path in self._files_of(event.wd, event.name))
        for event in events:
            if event.mask & (_ENDED | flags.IGNORED):
                self._forget(event.wd)
        return Changes(files, any(event.mask & (_LISTED | _ENDED) for event in events))

    def close(self) -> None:
        """Watch nothing any more."""
        if self._inotify is not None:
            self._inotify.close()

    def _files_of(self, number: int, name: str) -> Iterator[str]:
        return (name if folder == "." else f"{folder}/{name}" for folder in self._paths.get(number, ()) if name)

    def _forget(self, number: int) -> None:
        """The folder is gone or has another path: its path is watched again when it is listed."""
        if (paths := self._paths.pop(number, None)) is not None and self._inotify is not None:
            for path in paths:
                self._watched.pop(path, None)
            with suppress(OSError):
                self._inotify.rm_watch(number)


def _limit_fault(limit: str) -> str:
    return (
        f"inotify: the limit fs.inotify.{limit} is reached, so quiet files are looked at only every other second: "
        f"raise it with sysctl"
    )
