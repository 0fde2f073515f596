"""What the root's line says, by name: a process, a peer, a path, a code."""

from __future__ import annotations

from typing import Final

from epicenter.rules.model.signals import MAY_PASS_FIELD, Signal

MAX_FIELDS: Final = 12
MAX_FIELD_LENGTH: Final = 200
_NOT_SHOWN: Final = ("node", "rank", "job", "verdict", MAY_PASS_FIELD)


def fields_of(signal: Signal) -> dict[str, str]:
    """The signal's fields that have content, without those of its place and of its gravity; both ends are bounded."""
    texts = {name: " ".join(text.split())[:MAX_FIELD_LENGTH] for name, text in signal.fields.items()}
    shown = [(name, text) for name, text in texts.items() if text and name not in _NOT_SHOWN]
    return dict(shown[:MAX_FIELDS])
