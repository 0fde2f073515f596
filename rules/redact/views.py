"""A text as its reader sees it, without colour codes and with quotes decoded; spans lead back to the original."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

CODE_MARKS: Final = (b"\x1b[", b"\\u001b[", b"\\x1b[", b"\\033[", b"#033[", b"^[[")
"""A text without any of these has no colour codes: the escape character, also as shippers and JSON write it."""

QUOTE_MARKS: Final = (
    *(
        b"%22",
        b"%27",
        b"%3A",
        b"%3D",
        b"%7B",
        b"%3C",
        b"%2522",
        b"%253A",
        b"&quot;",
        b"&apos;",
        b"&#34;",
        b"&#39;",
        b"&lt;",
    ),
    *(b"\\u0022", b"\\u0027", b"\\u003c", b"\\u0026", b"\\x22", b"\\x27"),
)
"""A text without any of these, in any case, has no encoded quotes."""

_COLOUR: Final = rb"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|#033|\^\[)\[(?!redacted:)[0-9;:?]{0,32}[A-Za-z]"
_CODES: Final = re.compile(_COLOUR)
_ENCODED: Final = re.compile(
    rb"(?i)"
    + _COLOUR
    + rb"|%(?:25){0,4}(?P<percent>[0-9a-f]{2})|&(?P<entity>quot|apos|lt|gt|amp|#0{0,3}3[49]|#x2[27]);"
    rb"|\\{1,8}(?:u00|x)(?P<unicode>2[267]|3[ce])"
)

_ENTITIES: Final = {b"quot": b'"', b"apos": b"'", b"lt": b"<", b"gt": b">", b"amp": b"&"}


class View(NamedTuple):
    """A text to search; `starts` and `ends` of its bytes in the original are empty if it is the original."""

    text: bytes
    starts: array[int] = array("L")
    ends: array[int] = array("L")

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The span in the original of a span that isn't empty."""
        return (self.starts[start], self.ends[end - 1]) if self.starts else (start, end)


def views(text: bytes, marks: set[bytes]) -> Iterator[View]:
    """The text as it is shown, and decoded where quotes are encoded; `marks` are those that it holds."""
    yield View(text) if marks.isdisjoint(CODE_MARKS) else _view(text, _CODES, _removed)
    if not marks.isdisjoint(QUOTE_MARKS):
        yield _view(text, _ENCODED, _decoded)


def _view(text: bytes, pattern: re.Pattern[bytes], decoded: Callable[[re.Match[bytes]], bytes]) -> View:
    pieces, starts, ends, done = [], array("L"), array("L"), 0
    for found in pattern.finditer(text):
        starts.extend(range(done, found.start()))
        ends.extend(range(done + 1, found.start() + 1))
        character = decoded(found)
        pieces += [text[done : found.start()], character]
        starts.extend([found.start()] * len(character))
        ends.extend([found.end()] * len(character))
        done = found.end()
    starts.extend(range(done, len(text)))
    ends.extend(range(done + 1, len(text) + 1))
    return View(b"".join([*pieces, text[done:]]), starts, ends)


def _removed(_: re.Match[bytes]) -> bytes:
    return b""


def _decoded(found: re.Match[bytes]) -> bytes:
    if code := found["percent"] or found["unicode"]:
        return bytes([int(code, 16)])
    if entity := found["entity"]:
        return _ENTITIES.get(entity.lower()) or (b'"' if entity.endswith((b"34", b"22")) else b"'")
    return b""
