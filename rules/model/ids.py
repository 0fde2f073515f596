"""Ids that depend only on what they name."""

from __future__ import annotations

from hashlib import blake2b


def stable_id(*parts: object) -> str:
    """Sixteen hex digits that depend on the parts only, the same on every machine and in every run."""
    return blake2b(ascii(parts).encode(), digest_size=8).hexdigest()
