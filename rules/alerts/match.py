"""Whether labels fit a match: `*` in a word is any text, `!word` excludes, `""` is a missing label."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from epicenter.rules.alerts.labels import Labels

_MAX_SHOWN: Final = 3


def fits_word(value: str, word: str) -> bool:
    """Whether a value fits the word, in which `*` is any text. A missing label (`""`) fits only `""`."""
    if not value or "*" not in word:
        return value == word
    return fnmatchcase(value, re.sub(r"[\[?]", r"[\g<0>]", word))


def fits_words(values: Sequence[str], words: Sequence[str]) -> bool:
    """Whether one of the values fits one of the words, and none is excluded; if words only exclude, the rest fits."""
    return not _excluded(values, words) and (not wanted(words) or bool(_wanted_values(values, words)))


def fits(labels: Labels, match: Mapping[str, Sequence[str]]) -> bool:
    """Whether every label in the match fits; an empty match fits every incident."""
    return all(fits_words(values_of(labels, name), words) for name, words in match.items())


def values_of(labels: Labels, name: str) -> tuple[str, ...]:
    """The values of a label; one empty value if it is missing."""
    return labels.get(name) or ("",)


def wanted(words: Sequence[str]) -> tuple[str, ...]:
    """The words of which one has to fit."""
    return tuple(word for word in words if not word.startswith("!"))


def unwanted(words: Sequence[str]) -> tuple[str, ...]:
    """The words of which none may fit, without their `!`."""
    return tuple(word[1:] for word in words if word.startswith("!"))


def why_it_fits(labels: Labels, match: Mapping[str, Sequence[str]]) -> str:
    """Why it fits, in words: `class is xid-79, node is n7`."""
    if not match:
        return "every incident"
    return ", ".join(_why_fits(name, values_of(labels, name), words) for name, words in match.items())


def why_not(labels: Labels, match: Mapping[str, Sequence[str]]) -> str:
    """What does not fit, in words: `node is n7, not rack12-*`; empty when everything fits."""
    reasons = (_why_not(name, values_of(labels, name), words) for name, words in match.items())
    return ", ".join(filter(None, reasons))


def _why_fits(name: str, values: Sequence[str], words: Sequence[str]) -> str:
    found = _wanted_values(values, words)
    return f"{name} is {_listed(found)}" if found else f"{name} is {_listed(values)}, which fits {_listed(words)}"


def _why_not(name: str, values: Sequence[str], words: Sequence[str]) -> str:
    if excluded := _excluded(values, words):
        return f"{name} is {_listed(excluded[:1])}, which !{excluded[1]} excludes"
    if fits_words(values, words):
        return ""
    return f"{name} is {_listed(values)}, not {' or '.join(word or 'unknown' for word in wanted(words))}"


def _excluded(values: Sequence[str], words: Sequence[str]) -> tuple[str, str] | None:
    """The first excluded value, with the word that excludes it."""
    pairs = ((value, word) for value in values for word in unwanted(words) if fits_word(value, word))
    return next(pairs, None)


def _wanted_values(values: Sequence[str], words: Sequence[str]) -> list[str]:
    return [value for value in values if any(fits_word(value, word) for word in wanted(words))]


def _listed(values: Sequence[str]) -> str:
    shown = ", ".join(value or "unknown" for value in values[:_MAX_SHOWN])
    return shown + (f" and {more} more" if (more := len(values) - _MAX_SHOWN) > 0 else "")
