"""Format strings -> the parts of a message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bench.harvest.template import Argument, Hole, Kind, Parts

_CONVERSION = re.compile(
    r"%(?P<stars>[-+ #0'!]*(?:\*|\d+)?(?:\.(?:\*|\d*))?)(?:\((?P<key>\w+)\))?"
    r"(?:hh|h|ll|l|L|q(?=[diouxX])|j|z|t(?=[diouxX])|I64)?"
    r"(?P<letter>p[A-Za-z]\w?|[diouxXeEfFgGaAcspmrvwTqtUS%])"
)
_BRACES = re.compile(r"\{\{|\}\}|\{(?P<name>[\w.\[\]]*)(?:![rsa])?(?::(?P<spec>[^{}]*))?\}")
_KINDS: dict[str, Kind] = {
    **dict.fromkeys("diu", "integer"),
    **dict.fromkeys("oxX", "hex"),
    **dict.fromkeys("eEfFgGaA", "float"),
    "c": "character",
    "p": "pointer",
}


def printf(text: str, arguments: Sequence[str]) -> Parts:
    """The parts of a format of C, Go or Python's `%`; each hole has the source of its argument."""
    rest, parts, end = iter(arguments), list[str | Hole](), 0
    for found in _CONVERSION.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        parts.append("%" if found["letter"] == "%" else _hole(found, rest))
    return _joined([*parts, text[end:]])


def _hole(found: re.Match[str], rest: Iterator[str]) -> Hole:
    for _ in range(found["stars"].count("*")):
        next(rest, "")
    letter = found["letter"]
    expression = found["key"] or next(rest, "")
    if letter == "m":
        return Hole("text", "strerror")
    if len(letter) > 1:
        return Hole("text", f"%{letter} {expression}")
    return Hole(_KINDS.get(letter, "text"), expression)


def braces(text: str, arguments: Sequence[str]) -> Parts:
    """The parts of a format of `str.format` or `fmt`."""
    rest, parts, end = iter(arguments), list[str | Hole](), 0
    for found in _BRACES.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        if found["name"] is None:
            parts.append(found[0][0])
        else:
            parts.append(Hole(kind_of(found["spec"] or ""), next(rest, found["name"])))
    return _joined([*parts, text[end:]])


def kind_of(spec: str) -> Kind:
    """The kind of hole that a specification such as `.2f` makes."""
    return _KINDS.get(spec[-1:], "text")


def joined(arguments: Sequence[Argument]) -> Parts:
    """The parts of texts and values that are printed one after the other."""
    parts: list[str | Hole] = []
    for argument in arguments:
        parts += [Hole("text", argument.source)] if argument.parts is None else argument.parts
    return _joined(parts)


def _joined(parts: Sequence[str | Hole]) -> Parts:
    """The same parts, with neighbouring texts joined and empty ones left out."""
    found: list[str | Hole] = []
    for part in parts:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        elif part != "":
            found.append(part)
    return tuple(found)
