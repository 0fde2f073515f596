"""Whose turn it is to be read: few of many sources have news, and a look at each costs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import ceil
from typing import Final

from epicenter.rules.model.times import NS_PER_S

EACH_WITHIN_NS: Final = 2 * NS_PER_S
"""Each source gets a turn in this time, whether or not anything says that it has news."""

BUSY_NS: Final = 10 * NS_PER_S
"""A source with news gets every turn for so long."""


class Turns:
    """The sources to read in a round: those with news lately, those that changed, and some of the others."""

    def __init__(self) -> None:
        self._others: deque[str] = deque()
        self._busy_until_ns: dict[str, int] = {}
        self._newest_ns: int | None = None

    def add(self, name: str) -> None:
        """A new source has the next turn."""
        self._others.append(name)
        self._busy_until_ns[name] = 0

    def record_news(self, name: str) -> None:
        """The source had something to read in this round."""
        self._busy_until_ns[name] = (self._newest_ns or 0) + BUSY_NS

    def next(self, changed: Iterable[str], now_ns: int) -> list[str]:
        """The names of the sources whose turn it is. `now_ns` never goes back."""
        elapsed_ns = EACH_WITHIN_NS if self._newest_ns is None else now_ns - self._newest_ns
        self._newest_ns = now_ns
        names = dict.fromkeys([*self._busy_until_ns, *changed, *self._some_others(elapsed_ns)])
        for name in [name for name, until_ns in self._busy_until_ns.items() if until_ns <= now_ns]:
            del self._busy_until_ns[name]
        return list(names)

    def _some_others(self, elapsed_ns: int) -> list[str]:
        count = min(len(self._others), ceil(len(self._others) * elapsed_ns / EACH_WITHIN_NS))
        self._others.rotate(count)
        return [self._others[place] for place in range(count)]
