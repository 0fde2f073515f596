"""How long a line says that something waited -> nanoseconds."""

from __future__ import annotations

import re
from typing import Final

from epicenter.rules.model.times import NS_PER_S, UNIT_NS

MAX_WAIT_NS: Final = 7 * UNIT_NS["d"]
"""A longer wait is a counter that ran over, or a number that means something else."""

MIN_STALL_S: Final = 20
"""Linux reports a stall of RCU after 21 s unless configured otherwise; few configure less."""

_HERTZ: Final = (1000, 300, 250, 100)
_UNIT_NS: Final = {**UNIT_NS, "ns": 1, "us": 1000, "sec": NS_PER_S, "min": 60 * NS_PER_S}
UNITS: Final = frozenset(_UNIT_NS)
_WAIT = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?(ns|us|ms|sec|s|min|m|h|d)?", re.ASCII)


def stated_wait_ns(text: str, unit: str) -> int:
    """The wait that a number states, in the unit behind it, else in this one; 0 if it states none."""
    found = _WAIT.match(text)
    if not found:
        return 0
    number, own_unit = found.groups()
    if unit == "jiffies" and not own_unit:
        return _jiffies_ns(float(number))
    wait_ns = round(float(number) * _UNIT_NS.get(own_unit or unit, 0))
    return wait_ns if wait_ns <= MAX_WAIT_NS else 0


def _jiffies_ns(jiffies: float) -> int:
    """The shortest time, of those that kernels are built for, which is long enough for a report."""
    waits_s = (jiffies / hertz for hertz in _HERTZ)
    return round(next((wait_s for wait_s in waits_s if wait_s >= MIN_STALL_S), 0) * NS_PER_S)
