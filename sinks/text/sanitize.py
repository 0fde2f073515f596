"""Untrusted text made safe to show: nothing in it can move a cursor, colour a terminal or reorder a line."""

from __future__ import annotations

import json

import msgspec

_SPACES = {"\t", "\u00a0", "\u1680", "\u202f", "\u205f", "\u3000", *map(chr, range(0x2000, 0x200B))}


def sanitize(text: str, *, multiline: bool = False) -> str:
    """The text with every control, bidi, invisible and surrogate character written out, such as `\\x1b` or `\\u202e`.

    Tabs and odd spaces become plain spaces. Newlines are written out too, unless `multiline` keeps them.
    Printable text comes back unchanged, and sanitizing twice changes nothing more.
    """
    if text.isprintable():
        return text
    return "".join(_shown(character, multiline) for character in text)


def sanitized_json(value: object) -> str:
    """The value as a line of JSON, with the same characters escaped as JSON does, so that it still means the same."""
    text = msgspec.json.encode(value).decode()
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in text)


def _shown(character: str, multiline: bool) -> str:
    if character.isprintable() or (multiline and character == "\n"):
        return character
    if character in _SPACES:
        return " "
    return character.encode("unicode_escape").decode("ascii")
