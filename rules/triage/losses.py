"""A training loss that jumps: said by no line, but by the losses of many progress lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from statistics import median
from typing import Final

MAX_KEPT_LOSSES: Final = 50
FIRST_TRUSTED_STEP: Final = 100
"""Before that a loss still falls from its start, and jumps about."""

MIN_RISE: Final = 2.0
MIN_RATIO: Final = 2.0
MAX_RATIO_AT_FIRST: Final = 6.0
"""A single loss may be that of one micro-batch, where the later ones are sums over many: then no jump is that high."""

MAX_USUAL: Final = 20.0
"""Losses above that are no cross-entropy, and rise and fall by more for no reason."""


@dataclass
class Losses:
    """The newest losses of a run, one a step: a line may fit two rules, and ranks may tell the same step."""

    newest: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_KEPT_LOSSES))
    newest_step: int | None = None

    def jumps(self, fields: Mapping[str, str], step: int | None) -> bool:
        """Take in a progress line; whether its loss is twice what it used to be, and two nats higher at least."""
        loss = _number(fields.get("loss"))
        if loss is None or step is None or step < FIRST_TRUSTED_STEP or step == self.newest_step:
            return False
        self.newest_step = step
        usual, is_first = median(self.newest) if self.newest else None, len(self.newest) == 1
        self.newest.append(loss)
        if usual is None or not 0 < usual < MAX_USUAL:
            return False
        if is_first and loss > MAX_RATIO_AT_FIRST * usual:
            self.newest.popleft()
            return False
        return loss >= MIN_RATIO * usual and loss - usual >= MIN_RISE


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is not None and isfinite(number) else None
