"""Whose turn it is to be read: few of many sources have news, and a look at each costs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from math import ceil
from typing import Final

from epicenter.rules.model.times import NS_PER_S

BUSY_NS: Final = 10 * NS_PER_S
"""A source with news gets every turn for so long."""


class Due(Enum):
    """Within how many nanoseconds a source without news gets a turn."""

    ALWAYS = 0
    OFTEN = 2 * NS_PER_S
    RARELY = 10 * NS_PER_S
    """For those whose news is reported."""


class Turns:
    """The sources to read in a round: those with news lately, those that changed, and some of the others."""

    def __init__(self) -> None:
        self._names: dict[Due, deque[str]] = {due: deque() for due in Due}
        self._busy_until_ns: dict[str, int] = {}
        self._newest_ns: int | None = None

    def add(self, name: str, due: Due) -> None:
        """A new source has the next turn, and later ones as often as this."""
        self._names[due].append(name)
        self._busy_until_ns[name] = 0

    def record_lines(self, name: str) -> None:
        """The source had something to read in this round."""
        self._busy_until_ns[name] = (self._newest_ns or 0) + BUSY_NS

    def next(self, changed: Iterable[str], now_ns: int) -> list[str]:
        """The names of the sources whose turn it is. `now_ns` never goes back."""
        elapsed_ns = now_ns - (self._newest_ns or 0)
        self._newest_ns = now_ns
        in_turn = (name for due in Due for name in self._some(due, elapsed_ns))
        names = dict.fromkeys([*self._busy_until_ns, *changed, *in_turn])
        for name in [name for name, until_ns in self._busy_until_ns.items() if until_ns <= now_ns]:
            del self._busy_until_ns[name]
        return list(names)

    def _some(self, due: Due, elapsed_ns: int) -> list[str]:
        names = self._names[due]
        share = min(1, elapsed_ns / due.value) if due.value else 1
        count = ceil(len(names) * share)
        names.rotate(count)
        return [names[place] for place in range(count)]
