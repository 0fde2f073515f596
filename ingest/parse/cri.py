"""Lines that a container runtime has cut in parts -> whole lines. CRI log format: `<time> <stream> P|F <content>`.

Parts (`P`) end with a full one (`F`); those of stdout and stderr may lie between each other. Containerd cuts at 16 KiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from epicenter.ingest.batch.text import TextLines

MAX_JOINED_BYTES: Final = 1 << 20
"""A joined line that would be longer comes in several pieces, so that none of it is lost."""

_HEAD = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,20} (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S{0,20})? ")


NumberedLine = tuple[int, bytes]


@dataclass
class _Waiting:
    number: int
    parts: list[bytes]
    size_bytes: int


class CriJoiner:
    """Joins the parts in consecutive lines of one file. A joined line has the number and the head of its first part.

    Lines come out in the order of their ends, so a joined one may come after lines with higher numbers.
    """

    def __init__(self, longest_bytes: int = MAX_JOINED_BYTES):
        self._longest_bytes = longest_bytes
        self._waiting: dict[bytes, _Waiting] = {}

    def has_work(self, lines: TextLines) -> bool:
        """Whether these lines have to go through `join`: there are parts in them, or some wait for their end."""
        return bool(self._waiting) or lines.has_container_parts

    @property
    def is_waiting(self) -> bool:
        """Whether some parts wait for their end."""
        return bool(self._waiting)

    def join(self, lines: Iterable[NumberedLine]) -> list[NumberedLine]:
        """The whole lines; what is not in CRI format passes unchanged."""
        return [whole for number, line in lines for whole in self._process(number, line)]

    def rest(self) -> list[NumberedLine]:
        """Parts that still wait for their end, joined, in the order of their first lines; they stay marked as parts."""
        waiting, self._waiting = self._waiting, {}
        return sorted((part.number, b"".join(part.parts)) for part in waiting.values())

    def _process(self, number: int, line: bytes) -> Iterator[NumberedLine]:
        head = _HEAD.match(line)
        if not head:
            yield number, line
            return
        stream, is_last = head["stream"], head["tag"] == b"F"
        waiting = self._waiting.get(stream)
        if waiting and waiting.size_bytes + len(line) - head.end() > self._longest_bytes:
            yield waiting.number, b"".join(self._waiting.pop(stream).parts)
            waiting = None
        if waiting is None and is_last:
            yield number, line
        elif waiting is None:
            self._waiting[stream] = _Waiting(number, [line], len(line))
        else:
            waiting.parts.append(line[head.end() :])
            waiting.size_bytes += len(line) - head.end()
            if is_last:
                del self._waiting[stream]
                yield waiting.number, _as_full(b"".join(waiting.parts))


def _as_full(joined: bytes) -> bytes:
    head = _HEAD.match(joined)
    return joined[: head.start("tag")] + b"F" + joined[head.end("tag") :] if head else joined
