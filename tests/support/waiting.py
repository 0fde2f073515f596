"""Waiting for real servers, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

POLL_S = 0.05


def eventually(holds: Callable[[], Any], within_s: float, what: str) -> Any:
    """Ask again until the answer is true; the answer. Fails after `within_s`."""
    end_s = time.monotonic() + within_s
    while not (answer := holds()):
        assert time.monotonic() < end_s, f"not within {within_s} s: {what}"
        time.sleep(POLL_S)
    return answer
