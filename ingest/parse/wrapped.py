"""Lines that a terminal or a mail program has wrapped, in a text that people pass on -> the lines before that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from epicenter.ingest.parse.prefix import peel

COLUMNS: Final = (72, 76, 78, 80, 100, 120, 132, 160, 200, 240)
"""Usual widths. A text with longer lines is not wrapped."""

MAX_PARTS: Final = 16
_QUOTE: Final = re.compile(r"(?:>+ ?)*")
_BEGINS_ANEW: Final = re.compile(r"\s*$|\[?(?:\w{3} )?(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d)|\W{3}", re.ASCII)


class Unwrapped(NamedTuple):
    """What the line may have been, cut within a word or before one, and where its parts are."""

    texts: tuple[str, ...]
    first: int
    end: int


def unwrapped(lines: Sequence[str]) -> Iterator[Unwrapped]:
    """Each run of lines that are as long as the text is wide, with the line after them."""
    width = _width(lines)
    first = 0
    while width and first < len(lines) - 1:
        end = first + 1
        while end < len(lines) and end - first < MAX_PARTS and _continues(lines[end - 1], lines[end], width):
            end += 1
        if end - first > 1:
            yield Unwrapped(_joined(lines[first:end], width), first, end)
        first = end


def _width(lines: Sequence[str]) -> int:
    """The columns of the text: a width that several lines fill, else the next usual one; 0 if lines are longer."""
    sizes = sorted((len(line) for line in lines if " " in line.strip()), reverse=True)[:2]
    if not sizes or sizes[0] > COLUMNS[-1]:
        return 0
    is_filled = len(sizes) == 2 and sizes[0] == sizes[1] >= COLUMNS[0]
    return sizes[0] if is_filled else next(columns for columns in COLUMNS if columns >= sizes[0])


def _continues(line: str, following: str, width: int) -> bool:
    """Whether the first word that follows did not fit, and is not the first one of another line."""
    rest = _without_quote(following)
    word = rest.split(" ", 1)[0]
    if width - len(line) > len(word) or _quote(line) != _quote(following):
        return False
    return not _BEGINS_ANEW.match(rest) and peel(rest).body == rest


def _joined(parts: Sequence[str], width: int) -> tuple[str, ...]:
    rests = [parts[0], *map(_without_quote, parts[1:])]
    between_words = " ".join(rests)
    if all(len(part) < width for part in parts[:-1]):
        return (between_words,)
    seams = ["" if len(part) == width else " " for part in parts[:-1]]
    in_words = "".join(f"{rest}{seam}" for rest, seam in zip(rests, [*seams, ""], strict=True))
    return in_words, between_words


def _without_quote(line: str) -> str:
    return line.removeprefix(_quote(line))


def _quote(line: str) -> str:
    found = _QUOTE.match(line)
    return found[0] if found else ""
