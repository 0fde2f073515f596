"""A message as the source code has it: fixed text, and holes for what is known only when it is printed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["integer", "hex", "pointer", "float", "character", "text"]
Level = Literal["error", "warning", "info"]
MIN_LETTERS = 6


class Hole(NamedTuple):
    """A place for a value: its kind, and the expression or conversion that names it."""

    kind: Kind
    expression: str = ""


Parts = tuple[str | Hole, ...]


class Argument(NamedTuple):
    """An argument of a call: its source, and its parts if it is a text. `is_format`: holes are still conversions."""

    source: str
    parts: Parts | None = None
    is_format: bool = True


@dataclass(frozen=True)
class Call:
    """A call in the source code. `streamed` is what `<<` appends to it."""

    name: str
    arguments: tuple[Argument, ...]
    line: int
    function: str = ""
    streamed: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class Template:
    """A message that a producer can print, and the lines around it: `shape` has `{message}` in it."""

    producer: str
    parts: Parts
    level: Level
    shape: str
    source: str
    place: str

    @property
    def text(self) -> str:
        """The message with `{}` for each hole."""
        return text_of(self.parts)

    @property
    def id(self) -> str:
        """Eight hexadecimal digits that stay the same as long as the message does."""
        return self.id_of(self.producer, self.parts)

    @staticmethod
    def id_of(producer: str, parts: Parts) -> str:
        """The id of a message with these parts."""
        return hashlib.sha256(f"{producer}\n{text_of(parts)}".encode()).hexdigest()[:8]


def text_of(parts: Parts) -> str:
    """The parts with `{}` for each hole."""
    return "".join(part if isinstance(part, str) else "{}" for part in parts)


def has_words(parts: Parts) -> bool:
    """Whether the fixed text is long enough to recognise."""
    return letters_in(parts) >= MIN_LETTERS


def letters_in(parts: Parts) -> int:
    """The number of letters in the fixed text."""
    return sum(len(re.findall("[A-Za-z]", part)) for part in parts if isinstance(part, str))


def stripped(parts: Parts) -> Parts:
    """The parts without white space at both ends."""
    if not parts:
        return parts
    first, last = parts[0], parts[-1]
    if isinstance(last, str):
        parts = (*parts[:-1], last.rstrip())
    if isinstance(first, str):
        parts = (parts[0].lstrip() if isinstance(parts[0], str) else parts[0], *parts[1:])
    return tuple(part for part in parts if part != "")


def split_lines(parts: Parts) -> list[Parts]:
    """The parts of each line of a message; a tab is a hole, since programs print columns for it."""
    if not any(isinstance(part, str) and ("\n" in part or "\t" in part) for part in parts):
        return [parts]
    lines: list[list[str | Hole]] = [[]]
    for part in parts:
        for piece in re.split(r"([\n\t])", part) if isinstance(part, str) else [part]:
            if piece == "\n":
                lines.append([])
            else:
                lines[-1].append(Hole("text") if piece == "\t" else piece)
    return [found for line in lines if (found := stripped(tuple(line)))]
