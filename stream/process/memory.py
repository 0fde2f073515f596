"""How a worker uses memory: freed memory goes back to the system, and the garbage collector runs rarely."""

from __future__ import annotations

import gc
from ctypes import CDLL
from typing import Final

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""From glibc's malloc.h."""

ARENAS: Final = 2
"""By default each thread may get its own arena, which keeps freed memory."""

LARGE_BYTES: Final = 8 << 20
"""Larger blocks go back to the system as soon as they are free. By default this size grows up to 32 MiB, and snapshots
of a storm leave holes. Fetches of the hot path stay below it."""

MAX_FREE_BYTES: Final = 2 * LARGE_BYTES


RARELY: Final = 50_000, 10, 50
"""Thresholds of the garbage collector. A chunk makes thousands of objects that are freed with it; futures and
retries leave some hundred objects in cycles a second."""


def collect_rarely() -> None:
    """Exclude existing objects from collections, and collect the others rarely."""
    gc.freeze()
    gc.set_threshold(*RARELY)


def limit_allocator() -> None:
    """Return freed memory to the system, so that one service's peak is available to the next; glibc only."""
    mallopt = getattr(CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(_M_ARENA_MAX, ARENAS)
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, MAX_FREE_BYTES)
