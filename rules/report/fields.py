"""What the root's line says, by name: a process, a peer, a path, a code."""

from __future__ import annotations

from typing import Final

from epicenter.rules.model.signals import Signal

MAX_FIELDS: Final = 12
MAX_FIELD_LENGTH: Final = 200
_PLACE_FIELDS: Final = ("node", "rank", "job", "verdict")


def fields_of(signal: Signal) -> dict[str, str]:
    """The signal's fields that have content, without those that say where it happened; both ends are bounded."""
    texts = {name: " ".join(text.split())[:MAX_FIELD_LENGTH] for name, text in signal.fields.items()}
    shown = [(name, text) for name, text in texts.items() if text and name not in _PLACE_FIELDS]
    return dict(shown[:MAX_FIELDS])
