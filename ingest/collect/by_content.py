"""Whether a file whose name says nothing is a log: its first lines state when they were written."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

from epicenter.ingest.provenance.first_lines import head_time_ns
from epicenter.ingest.provenance.journal_export import FIRST_FIELDS
from epicenter.ingest.provenance.log_file import BLANKS, HEAD_BYTES, fault_of

LINES: Final = 2
"""So many first lines need a time: a document may mention one, and one line of JSON is no log."""


def begins_like_a_log(file: Path) -> bool:
    """Whether the first lines state a time each. A file that grows is looked at again while it is short."""
    try:
        return _begins_like_a_log(file, min(file.stat().st_size, HEAD_BYTES))
    except OSError:
        return False


@lru_cache(maxsize=1 << 16)
def _begins_like_a_log(file: Path, known_bytes: int) -> bool:
    with file.open("rb") as opened:
        head, written_ns = opened.read(known_bytes), os.fstat(opened.fileno()).st_mtime_ns
    return is_head_of_log(head, written_ns)


def is_head_of_log(head: bytes, written_ns: int = 0) -> bool:
    """Whether the first lines state a time each; `written_ns` is near it."""
    if head.startswith(FIRST_FIELDS):
        return True
    lines = head.lstrip(BLANKS).splitlines()[:LINES]
    is_text = len(lines) == LINES and not fault_of(head)
    return is_text and all(head_time_ns([line], written_ns) is not None for line in lines)
