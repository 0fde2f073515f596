"""Whether a value looks generated: tells tokens from names, counters, dates and words."""

from __future__ import annotations

import re
from typing import Final

MAX_RUN_LENGTH: Final = 3.3
"""A generated piece changes between letters, capitals and digits at least this often, in characters."""

LONG_PIECE: Final = 16
"""From this length, in characters, a piece may change as seldom as `MAX_LONG_RUN_LENGTH`: few changes are no chance."""

MAX_LONG_RUN_LENGTH: Final = 5.0
MIN_PIECE: Final = 6
MIN_SHARE: Final = 0.5
"""At least this share of the letters and digits is in generated pieces."""

MIN_SHARE_OF_NAME: Final = 0.75
"""The same of a value such as hf-token-7d9c8b6f5d: a name with a generated end."""

MIN_SIGNS: Final = 2
"""Names have fewer of the signs that generators of passwords use."""

_PIECE: Final = re.compile(rb"[A-Za-z0-9]+")
_RUN: Final = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_WORD: Final = re.compile(rb"[a-z]{3,}")
_LOWER_NAME: Final = re.compile(rb"[a-z0-9]+[-.][a-z0-9.-]+")
_WORD_OR_NUMBER: Final = re.compile(
    rb"[A-Za-z]{0,24}|[A-Z]?[a-z]{2,23}[0-9]{1,12}|[0-9]{1,24}[A-Za-z]{0,3}|[A-Za-z][0-9]{1,12}"
)
_JOINT: Final = re.compile(rb"[-_.:/@,=]+")
_NUMBER: Final = re.compile(rb"[0-9]{1,6}")
_CAPITALIZED: Final = re.compile(rb"[A-Z][a-z]+\Z")
_SIGN: Final = re.compile(rb"[!#$^&*;{}<>~?]")
_UUID: Final = re.compile(rb"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def is_random(value: bytes) -> bool:
    """Whether most of the value is letters and digits in no order that a person or a counter would choose."""
    if _UUID.fullmatch(value) or (_has_both(value) and len(_SIGN.findall(value)) >= MIN_SIGNS):
        return True
    pieces = _PIECE.findall(value)
    random = sum(len(piece) for piece in pieces if _is_random_piece(piece))
    is_name = _LOWER_NAME.fullmatch(value) and any(map(_WORD.fullmatch, pieces))
    return random > 0 and random >= (MIN_SHARE_OF_NAME if is_name else MIN_SHARE) * sum(map(len, pieces))


def is_mixed(value: bytes) -> bool:
    """Whether the value has letters and digits, and is no name, counter or date: `node-0012`, but not `node-Blue12`."""
    return is_random(value) or (_has_both(value) and not _is_words_and_numbers(value))


def is_phrase(value: bytes) -> bool:
    """Whether these words are a pass phrase and no sentence: a number and a capital after the first word."""
    others = value.split()[1:]
    return any(map(_NUMBER.fullmatch, others)) and any(map(_CAPITALIZED.match, others))


def _has_both(value: bytes) -> bool:
    return bool(re.search(rb"[0-9]", value) and re.search(rb"[A-Za-z]", value))


def _is_random_piece(piece: bytes) -> bool:
    runs = len(_RUN.findall(piece))
    if len(piece) >= LONG_PIECE and runs >= 4 and len(piece) <= MAX_LONG_RUN_LENGTH * runs:
        return True
    return len(piece) >= MIN_PIECE and runs >= 3 and len(piece) <= MAX_RUN_LENGTH * runs


def _is_words_and_numbers(value: bytes) -> bool:
    pieces = _JOINT.split(value.rstrip(b"="))
    capitals = {piece[:1].isupper() for piece in pieces if piece[:1].isalpha()}
    return len(pieces) > 1 and len(capitals) < 2 and all(map(_WORD_OR_NUMBER.fullmatch, pieces))
