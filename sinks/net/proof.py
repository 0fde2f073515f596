"""How a page proves to commands of this machine that it wrote the note in the data folder: it knows the note's key."""

from __future__ import annotations

import hmac
import re
from typing import Final

PROOF_PATH: Final = "/proof"
_NONCE: Final = re.compile(r"[0-9a-f]{32,64}")


def is_nonce(text: str) -> bool:
    """Whether it is a number that a command may ask for: 32 to 64 hexadecimal digits."""
    return _NONCE.fullmatch(text) is not None


def proof(key: str, nonce: str) -> str:
    """What only a holder of the key can answer."""
    return hmac.digest(key.encode(), f"page of epicenter: {nonce}".encode(), "sha256").hex()
