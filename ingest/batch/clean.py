"""A line as its program wrote it: without what terminals, tickets, chats and mail programs put into it."""

from __future__ import annotations

import re
from typing import Final

_COLOURS: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[()][A-Z0-9])|#033\[[0-9;]*m"
)
_ENTITIES: Final = {
    "&lt;": "<",
    "&gt;": ">",
    "&amp;": "&",
    "&nbsp;": " ",
    "&quot;": '"',
    "&#34;": '"',
    "&apos;": "'",
    "&#39;": "'",
    "&#x27;": "'",
}
_ENTITY: Final = re.compile("|".join(_ENTITIES))
_TYPOGRAPHY: Final = str.maketrans("\u2018\u2019\u201c\u201d\u00a0\u202f", "''\"\"  ", "\u200b\ufeff")

UNCLEAN: Final = ("\x1b", "#033[", "\0", *_ENTITIES, *map(chr, _TYPOGRAPHY))
"""Every line that `clean` changes has one of these."""


def clean(line: str) -> str:
    """The line without colours, terminal commands, NULs and HTML entities; quotes and spaces are those of ASCII."""
    if "\x1b" in line or "#033[" in line:
        line = _COLOURS.sub("", line)
    if "&" in line:
        line = _ENTITY.sub(lambda found: _ENTITIES[found[0]], line)
    if not line.isascii():
        line = line.translate(_TYPOGRAPHY)
    return line.replace("\0", "") if "\0" in line else line
