"""The record of examples: which message of a producer's source code prints each one. Needs no sources."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from bench.harvest.producers import Producer
from epicenter.rules.documents.strict import Strict
from epicenter.rules.packs.ruleset import Rule, RuleSet

RECORD = Path(__file__).with_name("examples.tsv")
EXCEPTIONS = Path(__file__).with_name("examples_of_others.yaml")
COMMAND = "python -m bench.harvest SOURCES --check-examples --write"


class Entry(NamedTuple):
    """An example, by its digest, and the message that prints it."""

    rule: str
    example: str
    producer: str
    version: str
    template: str


class Exempt(Strict):
    """Examples that are right, though no source code has their text: some of each rule."""

    reason: str
    examples: dict[str, tuple[str, ...]]

    @property
    def lines(self) -> Iterator[tuple[str, str]]:
        """Each with its rule."""
        return ((rule, line) for rule, lines in self.examples.items() for line in lines)


def digest_of(line: str) -> str:
    """Eight hexadecimal digits."""
    return hashlib.sha256(line.encode()).hexdigest()[:8]


def meant(rule: Rule, producers: Iterable[Producer]) -> set[str]:
    """The producers that the references of the rule mean."""
    return {name for text in rule.spec.references for name in _meant_by(text, producers)}


def is_from_others(rule: Rule, producers: Collection[Producer]) -> bool:
    """Whether a reference of the rule means none of the producers, so that its examples may be from elsewhere."""
    return not all(any(_meant_by(text, producers)) for text in rule.spec.references)


def _meant_by(reference: str, producers: Iterable[Producer]) -> Iterator[str]:
    return (found.name for found in producers if found.references and re.search(found.references, reference))


def examples(rules: RuleSet, producers: Collection[Producer]) -> Iterator[tuple[Rule, str]]:
    """All examples of rules that mean a producer."""
    for rule in rules.rules:
        if meant(rule, producers):
            yield from ((rule, line) for line in _lines(rule))


def missing(
    rules: RuleSet, producers: Sequence[Producer], record: Collection[Entry], exceptions: Iterable[Exempt]
) -> list[tuple[Rule, str]]:
    """Examples that must be in the record and are not."""
    known = {(entry.rule, entry.example) for entry in record}
    known |= {(rule, digest_of(line)) for exempt in exceptions for rule, line in exempt.lines}
    return [
        (rule, line)
        for rule, line in examples(rules, producers)
        if (rule.spec.id, digest_of(line)) not in known and not is_from_others(rule, producers)
    ]


def still_valid(rules: RuleSet, record: Iterable[Entry]) -> list[Entry]:
    """Entries whose rule still has the example."""
    present = {(rule.spec.id, digest_of(line)) for rule in rules.rules for line in _lines(rule)}
    return [entry for entry in record if (entry.rule, entry.example) in present]


def _lines(rule: Rule) -> tuple[str, ...]:
    return tuple(rule.spec.examples.matches) if rule.spec.examples else ()


def read_exceptions(file: Path = EXCEPTIONS) -> list[Exempt]:
    """The exceptions."""
    return [Exempt.model_validate(fields) for fields in yaml.safe_load(file.read_text("utf-8"))]


def read_record(file: Path = RECORD) -> list[Entry]:
    """The record; empty without a file."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [Entry(*row) for row in csv.reader(lines, "excel-tab")][1:]


def write_record(entries: Iterable[Entry], file: Path = RECORD) -> None:
    """Write the record, sorted by rule and example."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, "excel-tab", lineterminator="\n")
        writer.writerows([Entry._fields, *sorted(set(entries))])
