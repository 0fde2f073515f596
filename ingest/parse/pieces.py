"""One physical line that holds several: redrawn progress bars, and records whose newline is missing in between."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_SEAM: Final = re.compile(
    r"\r(?!\n)(?P<return>)"
    r"|\[\d{1,4}:\d\d(?::\d\d)?<[^\]\n]{1,200}\](?P<bar>)"
    r"|<\d{1,3}>\[[ \d]{0,8}\d\.\d{6}\]"
    r"|\[(?:[ \d]{0,8}\d\.\d{6}\][ \[]|rank\d{1,7}\]:)"
    r"|\[[^\[\]\s]{1,120}\](?:\[[\w.-]{1,252}:\d{1,10}\])?<std(?:out|err)>:",
    re.ASCII,
)
"""Where a new record begins: after a carriage return, after the end of a tqdm bar (`[00:12<03:40, 5.1it/s]`), before a
printk time, before `[rank3]:` and before `[1,3]<stderr>:`."""


_MAY_SEAM: Final = re.compile(r"[\r\[<]")
"""Every seam has one of these."""


def pieces_of(body: str) -> list[str]:
    """The records of a line whose prefixes are off, without blank ones; the line itself when it is one record."""
    if not _MAY_SEAM.search(body):
        return [body]
    seams = [found.end() if found.lastgroup else found.start() for found in _SEAM.finditer(body)]
    if not seams:
        return [body]
    pieces = (body[start:end].strip("\r") for start, end in pairwise([0, *seams, len(body)]))
    return [piece for piece in pieces if piece.strip()]
