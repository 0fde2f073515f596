"""A line -> its template: what stays the same when the same message is printed again."""

from __future__ import annotations

import re
from typing import Final

MAX_TEMPLATE_CHARS: Final = 240
"""A template is cut to this length; lines that differ only after it count as one message."""

_MASKED: Final = re.compile(
    r"(?P<id>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)"
    r"|(?P<address>\b0[xX][0-9a-fA-F]+\b|\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b)"
    r"|(?P<url>\b[a-z][a-z0-9+.-]{1,12}://[^\s'\"<>)\]]+)"
    r"|(?P<path>(?<![\w<>])~?(?:/[\w.@%+=~:-]+){2,}/?)"
    r"|(?P<host>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b)"
    r"|(?P<hash>\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b)"
    r"|(?P<number>\d+(?:[.,:]\d+)*)"
)
_SPACES: Final = re.compile(r"\s+")


def template_of(line: str) -> str:
    """The line with what varies masked: `connect to <host> failed: errno <number>`; at most 240 characters.

    Masks are `<id>`, `<address>`, `<url>`, `<path>`, `<host>`, `<hash>` and `<number>`.
    """
    masked = _MASKED.sub(lambda found: f"<{found.lastgroup}>", line[: 4 * MAX_TEMPLATE_CHARS])
    return _SPACES.sub(" ", masked).strip()[:MAX_TEMPLATE_CHARS]
