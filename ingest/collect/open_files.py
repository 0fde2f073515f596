"""A bounded number of open files: what was not read for longest is closed, and opened again once it has news."""

from __future__ import annotations

import errno
import os
import resource
from collections import OrderedDict
from pathlib import Path
from typing import Final

MAX_OPEN: Final = 1_000
SHARE: Final = 4
"""Logs get at most one in so many of the files that this process may open: store and page need the rest."""

_TOO_MANY: Final = (errno.EMFILE, errno.ENFILE)


class OpenFiles:
    """The descriptors of files that owners read, at most `most` of them. Each owner has one."""

    def __init__(self, most: int | None = None):
        self._most = most or _most_open()
        self._descriptors: OrderedDict[object, int] = OrderedDict()

    def of(self, owner: object) -> int | None:
        """The owner's descriptor; None if it has none or it was closed meanwhile."""
        descriptor = self._descriptors.get(owner)
        if descriptor is not None:
            self._descriptors.move_to_end(owner)
        return descriptor

    def open(self, path: Path | str) -> int:
        """A new descriptor, which is to be kept or closed. It neither waits for a writer nor changes the file.

        Raises:
            OSError: it can't be opened, also if all others are closed.
        """
        while True:
            try:
                return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
            except OSError as error:
                if error.errno not in _TOO_MANY or not self._descriptors:
                    raise
                self._close_oldest()

    def keep(self, owner: object, descriptor: int) -> None:
        """Make it the owner's descriptor, in place of the one before."""
        self.close(owner)
        while len(self._descriptors) >= self._most:
            self._close_oldest()
        self._descriptors[owner] = descriptor

    def close(self, owner: object) -> None:
        """Close the owner's descriptor, if it has one."""
        if (descriptor := self._descriptors.pop(owner, None)) is not None:
            os.close(descriptor)

    def _close_oldest(self) -> None:
        os.close(self._descriptors.popitem(last=False)[1])


def _most_open() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_OPEN if limit == resource.RLIM_INFINITY else max(1, min(MAX_OPEN, limit // SHARE))
