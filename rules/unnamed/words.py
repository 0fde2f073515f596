"""Words of failures, as tables of them have them: which of many expressions is in a template."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Final, Generic, TypeVar

from epicenter.rules.match.hyperscan import HyperscanScanner

MAX_REMEMBERED_TEMPLATES: Final = 10_000

_NO_WORDS: Final = re.compile(r"[\w./-]+\.(?:py|cc?|cpp|cu|h|hpp|go|rs|java|scala|inl)\b|_", re.ASCII)

RuleT = TypeVar("RuleT")


def in_any_case(words: str) -> str:
    """The expression that Hyperscan searches for."""
    return f"(?i){words}"


class WordsIndex(Generic[RuleT]):
    """Finds the first of many expressions in a template, in any case.

    Names of source files are no words; the parts of a name with underscores are. For one thread at a time: it owns a
    scratch space.
    """

    def __init__(self, rows: Iterable[tuple[str, RuleT]]):
        self._rows = list(rows)
        self._patterns = [re.compile(words, re.IGNORECASE | re.ASCII) for words, _ in self._rows]
        self.rule_in = lru_cache(MAX_REMEMBERED_TEMPLATES)(self._rule_in)

    def _rule_in(self, template: str) -> RuleT | None:
        text = _NO_WORDS.sub(" ", template)
        candidates = [row for _, row in self._scanner.scan([text.encode("utf-8", "surrogatepass")])]
        return next((self._rows[row][1] for row in candidates if self._patterns[row].search(text)), None)

    @cached_property
    def _scanner(self) -> HyperscanScanner:
        return HyperscanScanner([in_any_case(words) for words, _ in self._rows])
