"""A jump of the training loss: no single line reports it, but the losses of many progress lines show it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from statistics import median
from typing import Final

MAX_KEPT_LOSSES: Final = 50
FIRST_TRUSTED_STEP: Final = 100
"""Before this step, the loss still falls from its initial value and fluctuates."""

MIN_RISE: Final = 2.0
MIN_RATIO: Final = 2.0
MAX_RATIO_AT_FIRST: Final = 6.0
"""The first loss may be that of one micro-batch and later ones sums over many; a real jump is not this high."""

MAX_USUAL: Final = 20.0
"""A loss above this is not a cross-entropy, and fluctuates more for no reason."""


@dataclass
class Losses:
    """The newest losses of a run, one per step: a line may match two rules, and ranks may report the same step."""

    newest: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_KEPT_LOSSES))
    newest_step: int | None = None

    def jumps(self, fields: Mapping[str, str], step: int | None) -> bool:
        """Process a progress line; true if its loss is at least twice the usual one, and at least two nats higher."""
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
