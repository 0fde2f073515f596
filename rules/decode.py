"""Fields that need more than an expression: each decoder adds what the line's own fields mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Fields = dict[str, str]

DECODERS: Final[dict[str, Callable[[Fields], Fields]]] = {}
"""By the name that a rule gives in `decode`."""
