"""How often each message that no rule names came, in bounded memory."""

from __future__ import annotations

from typing import Final

import msgspec

from epicenter.rules.model.signals import TEMPLATE_FIELD, Signal

MAX_TEMPLATES: Final = 20_000
"""At most this many messages are known; the one that was silent for longest is forgotten first."""

MAX_OCCURRENCES: Final = 50
"""A message that came more often in a cluster is one of its habits, and explains nothing."""


class UnnamedMemory(msgspec.Struct):
    """The occurrences of each message by cluster and template, the newest last; `dropped` are those of habits."""

    occurrences: dict[str, int] = {}
    dropped: int = 0

    def admits(self, signal: Signal) -> bool:
        """Count a line; whether its message is still rare in the cluster."""
        name = f"{signal.cluster}/{signal.fields.get(TEMPLATE_FIELD, '')}"
        count = self.occurrences.pop(name, 0) + 1
        self.occurrences[name] = count
        if len(self.occurrences) > MAX_TEMPLATES:
            del self.occurrences[next(iter(self.occurrences))]
        self.dropped += count > MAX_OCCURRENCES
        return count <= MAX_OCCURRENCES
