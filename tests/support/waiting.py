"""Waiting for real servers, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

POLL_S = 0.05
MAX_POLL_S = 0.25
"""Each poll costs the server CPU that it needs itself."""

COMPILE_S = 300.0
"""For a start with new rules, and for rules that change: all patterns are compiled, next to other tests."""


def eventually(holds: Callable[[], Any], within_s: float, what: str) -> Any:
    """Poll until the answer is true, and return it. Fails after `within_s`."""
    end_s = time.monotonic() + within_s
    pause_s = POLL_S
    while not (answer := holds()):
        assert time.monotonic() < end_s, f"not within {within_s} s: {what}"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.2, MAX_POLL_S)
    return answer
