"""Examples of rules that name a harvested producer, but that no text in its source code fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from bench.harvest.extract import texts_of
from bench.harvest.producers import Producer
from bench.harvest.template import Parts
from epicenter.rules.packs.ruleset import Rule, RuleSet

MIN_PIECE = 8
"""Fixed text of a message that must be in the example, whole: the longest piece of it, if it has this many letters."""


class Texts:
    """All texts of one producer; says whether a line contains one of them."""

    def __init__(self, texts: Iterable[Parts]):
        self._patterns: dict[str, list[re.Pattern[str]]] = {}
        for parts in set(texts):
            piece = max((part for part in parts if isinstance(part, str)), key=len, default="")
            if len(piece) >= MIN_PIECE:
                self._patterns.setdefault(piece, []).append(_pattern(parts))

    def spans(self, line: str) -> Iterator[tuple[int, int]]:
        """Where texts are in the line."""
        for piece, patterns in self._patterns.items():
            if piece in line:
                for pattern in patterns:
                    yield from (found.span() for found in pattern.finditer(line))


def misfits(rules: RuleSet, producers: Sequence[Producer], sources: Path) -> list[str]:
    """A message for each example that no text explains, of rules that refer to these producers and to no other."""
    texts = {producer.name: Texts(texts_of(producer, sources)) for producer in producers}
    by_name = {producer.name: producer for producer in producers}
    found = (_misfits_of(rule, by_name, texts) for rule in rules.rules if rule.spec.examples)
    return list(chain.from_iterable(found))


def _misfits_of(rule: Rule, producers: Mapping[str, Producer], texts: Mapping[str, Texts]) -> Iterator[str]:
    meant = _meant(rule, producers)
    if not meant or rule.spec.examples is None:
        return
    group = {name for name, other in producers.items() if any(producers[own].is_sister(other) for own in meant)}
    for line in rule.spec.examples.matches:
        if not any(_explains(texts[name], rule, line) for name in sorted(group)):
            yield f"{rule.place}: {rule.spec.id}: no text of {', '.join(sorted(meant))}: {line}"


def _meant(rule: Rule, producers: Mapping[str, Producer]) -> set[str]:
    """The producers that the references of the rule mean; none if one of them is not harvested."""
    meant = [
        {name for name, producer in producers.items() if producer.references and re.search(producer.references, text)}
        for text in rule.spec.references
    ]
    return set().union(*meant) if all(meant) else set()


def _explains(texts: Texts, rule: Rule, line: str) -> bool:
    """Whether a text of the producer is where a pattern of the rule matches."""
    places = [found.span() for pattern in rule.patterns for found in pattern.finditer(line.encode())]
    return any(start < end_of and start_of < end for start, end in texts.spans(line) for start_of, end_of in places)


def _pattern(parts: Parts) -> re.Pattern[str]:
    return re.compile("".join(re.escape(part) if isinstance(part, str) else r"[^\n]{0,200}?" for part in parts))
