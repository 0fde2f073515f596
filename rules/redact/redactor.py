"""Credentials in text -> `[redacted:kind]`, the same bytes in every process, and nothing else changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import Final

import msgspec

from epicenter.rules.match.fixed_text import Texts, needed_texts
from epicenter.rules.match.marks import Marks
from epicenter.rules.redact.randomness import is_mixed, is_phrase, is_random
from epicenter.rules.redact.views import CODE_MARKS, QUOTE_MARKS, View, views

MAX_ROUNDS: Final = 8
"""A replacement may reveal another secret. A text that still changes after this many rounds is redacted as a whole."""

MARK_BEGINS: Final = b"[redacted:"
"""The start of every replacement."""

_MAX_REST_LENGTH: Final = 3
"""Bytes of a UTF-8 character after its first."""

_LINE: Final = re.compile(rb"\S[^\r\n]*")

_MARK: Final = re.compile(rb"\[redacted:[a-z0-9-]{1,40}\]")


_LOOKS: Final[Mapping[str, Callable[[bytes], bool]]] = {
    "secret": bool,
    "mixed": is_mixed,
    "random": is_random,
    "phrase": is_phrase,
}
"""The groups of a pattern that name a secret, each with the values that are one."""


@dataclass(frozen=True)
class Secret:
    """A kind of secret: looked for in texts that hold a `sought` word, in any case.

    Of a pattern's match (`re`, over bytes), the group `secret` is replaced; or `mixed` if `is_mixed`, or `random` if
    `is_random`, or `phrase` if `is_phrase`; where no such group matched, all of it.
    """

    name: str
    sought: tuple[str, ...]
    expressions: tuple[str, ...]

    @cached_property
    def mark(self) -> bytes:
        """The replacement."""
        return f"[redacted:{self.name}]".encode()

    @cached_property
    def needed(self) -> tuple[Texts, ...]:
        """For each expression, texts in lower case without which it can't match; none if they are not known."""
        return tuple(needed_texts(expression.encode()) for expression in self.expressions)

    def spans_in(self, text: bytes) -> Iterator[tuple[int, int]]:
        """The spans of secrets of this kind."""
        lower = text.lower()
        for expression, needed in zip(self.expressions, self.needed, strict=True):
            if not needed or any(map(lower.__contains__, needed)):
                yield from _spans_of(_compiled(expression), text)


@cache
def _compiled(expression: str) -> re.Pattern[bytes]:
    """At first use: most expressions are never needed."""
    return re.compile(expression.encode())


def _spans_of(pattern: re.Pattern[bytes], text: bytes) -> Iterator[tuple[int, int]]:
    group = next((name for name in _LOOKS if name in pattern.groupindex), None)
    for found in pattern.finditer(text):
        if group is None or found[group] is None:
            yield found.span()
        elif _LOOKS[group](found[group]):
            yield found.span(group)


class Redacted(msgspec.Struct, frozen=True):
    """A text without its secrets, with what was removed and the kind of each, in order."""

    text: bytes
    secrets: tuple[bytes, ...]
    kinds: tuple[str, ...]


class Redactor:
    """Removes secrets from texts. Use one a thread: it owns a scratch space.

    Where two kinds overlap, everything that either covers is replaced, under the name of the first kind.
    """

    def __init__(self, secrets: Sequence[Secret], no_secrets: Sequence[str] = ()):
        self._secrets = tuple(secrets)
        self._no_secrets = tuple(re.compile(pattern.encode()) for pattern in no_secrets)
        by_word: dict[bytes, list[int]] = {}
        for number, secret in enumerate(secrets):
            for word in secret.sought:
                by_word.setdefault(word.lower().encode(), []).append(number)
        self._by_word: Mapping[bytes, list[int]] = by_word
        self._words = Marks((*by_word, *CODE_MARKS, *QUOTE_MARKS), in_any_case=True)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the kinds, in order."""
        return tuple(secret.name for secret in self._secrets)

    def redact_all(self, texts: Sequence[bytes]) -> dict[int, Redacted]:
        """The texts that hold secrets, by index. One search over all of them finds out whether there is any."""
        if not self._words_in(b"\n".join(texts)):
            return {}
        redacted = ((number, self.redact(text)) for number, text in enumerate(texts))
        return {number: result for number, result in redacted if result.kinds}

    def redact(self, text: bytes, by_line: bool = False) -> Redacted:
        """One text, unchanged if it holds no secret. Valid UTF-8 stays valid.

        `by_line`: a secret that spans lines leaves a mark in each, so that the text has as many lines as before.
        """
        secrets: list[bytes] = []
        kinds: list[str] = []
        left = text
        for _ in range(MAX_ROUNDS):
            spans = _lines_of(left, self._spans(left)) if by_line else self._spans(left)
            if not spans:
                return Redacted(left, tuple(secrets), tuple(kinds))
            secrets += [left[start:end] for start, end, _ in spans]
            kinds += [self._secrets[number].name for _, _, number in spans]
            left = self._without(left, spans)
        return Redacted(b"[redacted:text]", (*secrets, text), (*kinds, "text"))

    def _without(self, text: bytes, spans: Sequence[tuple[int, int, int]]) -> bytes:
        pieces, done = [], 0
        for start, end, number in spans:
            pieces += [text[done:start], self._secrets[number].mark]
            done = end
        return b"".join([*pieces, text[done:]])

    def _spans(self, text: bytes) -> list[tuple[int, int, int]]:
        """(start, end, number of the kind), apart from each other and in order."""
        unmarked = _MARK.sub(_blank, text) if MARK_BEGINS in text else text
        words = self._words_in(unmarked)
        if not words:
            return []
        found = [
            (*_whole_characters(text, *view.original(*span)), number)
            for view in views(unmarked, words)
            for span, number in self._found_in(view)
        ]
        return list(_outside(_joined(found), [mark.span() for mark in _MARK.finditer(text)])) if found else []

    def _found_in(self, view: View) -> Iterator[tuple[tuple[int, int], int]]:
        words = self._words_in(view.text) & self._by_word.keys()
        for number in sorted(set(chain.from_iterable(map(self._by_word.__getitem__, words)))):
            for span in self._secrets[number].spans_in(view.text):
                if self._is_secret(view.text[slice(*span)]):
                    yield span, number

    def _words_in(self, text: bytes) -> set[bytes]:
        return self._words.found_in(text)

    def _is_secret(self, found: bytes) -> bool:
        return bool(found) and not any(pattern.fullmatch(found) for pattern in self._no_secrets)


def _blank(mark: re.Match[bytes]) -> bytes:
    """As long as the mark, without the name of its kind: `password` in it is no name of a value."""
    return b"[" + b"." * (len(mark[0]) - 2) + b"]"


def _joined(spans: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """The spans, with overlapping ones merged."""
    first, last, kind = 0, 0, 0
    for start, end, number in sorted(spans):
        if start < last:
            last, kind = max(last, end), min(kind, number)
            continue
        if last:
            yield first, last, kind
        first, last, kind = start, end, number
    if last:
        yield first, last, kind


def _lines_of(text: bytes, spans: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The parts of the spans in each line; empty parts are left out."""
    return [
        (start + line.start(), start + line.end(), number)
        for start, end, number in spans
        for line in _LINE.finditer(text[start:end])
    ]


def _outside(spans: Iterator[tuple[int, int, int]], marks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """The spans without the marks that are already in the text; both in order."""
    passed = 0
    for start, end, number in spans:
        while passed < len(marks) and marks[passed][1] <= start:
            passed += 1
        at = passed
        while at < len(marks) and marks[at][0] < end:
            if start < marks[at][0]:
                yield start, marks[at][0], number
            start, at = marks[at][1], at + 1
        if start < end:
            yield start, end, number


def _whole_characters(text: bytes, start: int, end: int) -> tuple[int, int]:
    """The span without half a character of UTF-8 at either end."""
    for _ in range(_MAX_REST_LENGTH):
        start -= start > 0 and text[start] & 0xC0 == 0x80
        end += end < len(text) and text[end] & 0xC0 == 0x80
    return start, end
