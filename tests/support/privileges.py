"""Rights of files bind every user but root, who runs the tests in a container."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION = 0x20080522
_OVERRIDING = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, see capabilities(7)."""


@contextmanager
def without_privileges() -> Iterator[None]:
    """As a user whom the rights of files bind: root gives up the two capabilities that override them for a while."""
    if os.geteuid():
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    effective = sets[0]
    sets[0] &= ~_OVERRIDING
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets[0] = effective
        assert libc.capset(header, sets) == 0


def bound_by_rights() -> list[str]:
    """What a command is to begin with, so that the rights of files bind it: root loses the right to override them."""
    if os.geteuid():
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv, "setpriv (util-linux) is needed to test as root"
    return [setpriv, "--bounding-set", "-dac_override,-dac_read_search", "--"]
