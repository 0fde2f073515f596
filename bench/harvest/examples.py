"""The messages of harvested producers that print the examples of rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from bench.harvest.extract import texts_of
from bench.harvest.producers import Producer
from bench.harvest.record import Entry, digest_of, examples, meant
from bench.harvest.template import Hole, Parts, Template, has_words, letters_in, split_lines
from epicenter.rules.packs.ruleset import Rule, RuleSet

ENOUGH_LETTERS = 11
"""A message with less fixed text must reach to the end of the line."""
KEY = 8
"""Messages are looked up by the first letters of their longest fixed text; shorter ones by all of it."""
MIN_KEY = 4
MAX_HEAD = 100
"""A rule may match the head of a line only: the message begins at most so many letters after that."""
_VALUES = {
    "integer": r"[-+]?\d[\d,]{0,20}",
    "hex": "(?:0x)?[0-9a-fA-F]{1,32}",
    "character": ".",
}
_ANY = r"[^\n]{0,300}?"


class Text(NamedTuple):
    """A line of a message, and where it is from."""

    line: Parts
    whole: Parts
    producer: str
    version: str

    @property
    def id(self) -> str:
        """The id of the message."""
        return Template.id_of(self.producer, self.whole)


class Texts:
    """All texts of a producer; says which of them a line contains."""

    def __init__(self, producer: Producer, sources: Path):
        self._by_key: dict[str, list[Text]] = {}
        versions: dict[Parts, str] = {}
        for version, whole in texts_of(producer, sources):
            versions.setdefault(whole, version)
        for whole, version in versions.items():
            for line in split_lines(whole):
                self._add(Text(line, whole, producer.name, version))

    def _add(self, text: Text) -> None:
        longest = max((part for part in text.line if isinstance(part, str)), key=len, default="")
        if len(longest) >= MIN_KEY and has_words(text.line):
            self._by_key.setdefault(longest[:KEY], []).append(text)

    def found(self, line: str) -> Iterator[tuple[Text, re.Match[str]]]:
        """The texts that are in the line, and where."""
        keys = {line[start : start + length] for length in range(MIN_KEY, KEY + 1) for start in range(len(line))}
        for key in keys:
            for text in self._by_key.get(key, ()):
                yield from ((text, match) for match in _pattern(text.line).finditer(line))


def printed(rules: RuleSet, producers: Sequence[Producer], sources: Path, known: Iterable[Entry] = ()) -> list[Entry]:
    """Which message prints an example, for each that is not known and has one."""
    done = {(entry.rule, entry.example) for entry in known}
    by_name = {producer.name: producer for producer in producers}
    texts_of_one = cache(lambda name: Texts(by_name[name], sources))
    found = []
    for rule, line in examples(rules, producers):
        if (rule.spec.id, digest_of(line)) not in done:
            texts = map(texts_of_one, _group(meant(rule, producers), producers))
            if text := _printed_by(texts, rule, line):
                found.append(Entry(rule.spec.id, digest_of(line), text.producer, text.version, text.id))
    return found


def _group(names: set[str], producers: Iterable[Producer]) -> list[str]:
    """The names of these producers and their sisters."""
    named = [producer for producer in producers if producer.name in names]
    return [producer.name for producer in producers if any(other.is_sister(producer) for other in named)]


def _printed_by(texts: Iterable[Texts], rule: Rule, line: str) -> Text | None:
    """The text that is where a pattern of the rule matches the raw line, or anywhere, with most letters."""
    places = [found.span() for pattern in rule.patterns for found in pattern.finditer(line.encode())]
    places = places or [(0, len(line))]
    fitting = [
        text
        for text, match in chain.from_iterable(some.found(line) for some in texts)
        if any(match.start() <= end + MAX_HEAD and start < match.end() for start, end in places)
    ]
    return max(fitting, key=lambda text: (letters_in(text.line), text.producer, text.id), default=None)


@cache
def _pattern(parts: Parts) -> re.Pattern[str]:
    """Any text may be in a hole; what follows it is looked for once, or the search takes for ever."""
    stretches = [""]
    for part in parts:
        if isinstance(part, Hole) and part.kind not in _VALUES:
            stretches.append("")
        else:
            stretches[-1] += re.escape(part) if isinstance(part, str) else _VALUES[part.kind]
    if letters_in(parts) < ENOUGH_LETTERS:
        stretches[-1] += r"\s*$"
    first, *others = stretches
    return re.compile(first + "".join(f"(?>{_ANY}{stretch})" for stretch in others))
