"""Numbers in the query of an address, within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MAX_NUMBER: Final = 2**63 - 1
"""The largest number that the store holds, and its latest time in nanoseconds."""

_MAX_DIGITS: Final = len(str(MAX_NUMBER))


def number(parameters: Mapping[str, str], name: str, default: int, least: int = 0, most: int = MAX_NUMBER) -> int:
    """The whole number of this name.

    Raises:
        ValueError: it is none, or is out of bounds; the message says what is allowed.
    """
    text = parameters.get(name, str(default))
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    if not (is_number and least <= int(text) <= most):
        raise ValueError(f"{name}: write a number from {least} to {most}")
    return int(text)
