"""Which failure messages of producers' source code our rules name: `python -m bench.harvest SOURCES`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.harvest import record, report
from bench.harvest.examples import printed
from bench.harvest.extract import templates_of
from bench.harvest.labels import read_labels
from bench.harvest.matching import Matcher, Named
from bench.harvest.producers import PRODUCERS, Producer, read_producers, version_of
from bench.harvest.score import Row, row_of
from bench.harvest.state import Changes, changes, read_state, state_of, write_state
from bench.harvest.template import Level, Template
from bench.harvest.words import as_table, suggestions, words_row
from epicenter.rules.packs.load import load

LEVELS: tuple[Level, ...] = ("error", "warning")
SAMPLE = 120


class Harvest(NamedTuple):
    """The messages of one producer, and how they are named."""

    producer: Producer
    version: str
    templates: list[Template]
    named: dict[str, Named]

    def rows(self) -> Iterator[Row]:
        """Its figures, one row a level."""
        labels = read_labels(self.producer.name)
        for level in LEVELS:
            row = row_of(self.producer.name, self.version, level, self.templates, self.named, labels)
            if row.templates:
                yield row


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, sample or check; the exit code, 1 when an example can't be printed."""
    options = _parsed(arguments)
    producers = [producer for producer in read_producers(options.producers) if producer.root(options.sources).is_dir()]
    if options.only:
        producers = [producer for producer in producers if producer.name in options.only]
    if options.check_examples:
        return _check_examples(producers, options)
    if options.sample:
        _print_sample(next(producer for producer in producers if producer.name == options.sample), options.sources)
        return 0
    measured = [producer for producer in producers if producer.measured]
    if options.words:
        _measure_words(measured, options.sources)
        return 0
    _measure(measured, options)
    return 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.harvest", description=__doc__)
    parser.add_argument("sources", type=Path, help="a folder with a folder of sources for each producer")
    parser.add_argument("--producers", type=Path, default=PRODUCERS, help="the file that describes them")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this producer")
    parser.add_argument("--json", action="store_true", help="one line of JSON a row")
    parser.add_argument("--unnamed", action="store_true", help="print the messages that no rule names too")
    parser.add_argument("--write", action="store_true", help="write docs/source-coverage.md and .json, or the examples")
    parser.add_argument("--words", action="store_true", help="print what the words of messages suggest")
    parser.add_argument("--sample", metavar="NAME", help="print some messages of a producer to judge, in random order")
    parser.add_argument("--check-examples", action="store_true", help="list examples that no producer can print")
    options = parser.parse_args(arguments)
    if options.write and options.only and not options.check_examples:
        parser.error("--write needs all producers: leave out --only")
    return options


def _measure(producers: Sequence[Producer], options: argparse.Namespace) -> None:
    matcher, before = Matcher(load()), read_state()
    harvests = [_harvest(producer, options.sources, matcher) for producer in producers]
    states = {harvest.producer.name: state_of(harvest.version, harvest.named) for harvest in harvests}
    changed = {name: changes(before.get(name), state) for name, state in states.items()}
    rows = [row for harvest in harvests for row in harvest.rows()]
    if options.json:
        for row in rows:
            print(msgspec.json.encode(report.as_json(row, changed[row.producer])).decode())
    else:
        print(report.as_text(rows))
        _print_changes(harvests, changed)
    if options.unnamed:
        _print_unnamed(harvests)
    if options.write:
        report.DOCUMENT.write_text(report.as_document(rows), "utf-8")
        write_state(states)


def _measure_words(producers: Sequence[Producer], sources: Path) -> None:
    rules, rows = load(), []
    for producer in producers:
        templates = templates_of(producer, sources)
        suggested = suggestions(templates, rules)
        rows.append(words_row(producer.name, templates, suggested, read_labels(producer.name)))
    print(as_table(rows))


def _harvest(producer: Producer, sources: Path, matcher: Matcher) -> Harvest:
    templates = [template for template in templates_of(producer, sources) if template.level in LEVELS]
    return Harvest(producer, version_of(producer.root(sources)), templates, matcher.named(templates))


def _print_changes(harvests: Sequence[Harvest], changed: dict[str, Changes | None]) -> None:
    for harvest in harvests:
        if found := changed[harvest.producer.name]:
            texts = {template.id: template.text for template in harvest.templates}
            for line in report.changes_as_text(harvest.producer.name, found, texts):
                print(line)


def _print_unnamed(harvests: Sequence[Harvest]) -> None:
    for harvest in harvests:
        for template in harvest.templates:
            if harvest.named[template.id].how == "unnamed":
                print(f"{template.id}\t{template.level}\t{template.place}\t{template.text!r}")


def _print_sample(producer: Producer, sources: Path) -> None:
    """Print messages of errors that are not judged yet, in the order of their ids, which is random."""
    labelled = read_labels(producer.name)
    found = [template for template in templates_of(producer, sources) if template.level == "error"]
    unread = sorted((template for template in found if template.id not in labelled), key=lambda template: template.id)
    for template in unread[:SAMPLE]:
        print(f"{template.id}\t{template.place}\t{template.text!r}")


def _check_examples(producers: Sequence[Producer], options: argparse.Namespace) -> int:
    rules, everyone = load(), read_producers(options.producers)
    known = record.still_valid(rules, record.read_record())
    known += printed(rules, producers, options.sources, known)
    if options.write:
        record.write_record(known)
    lacking = record.missing(rules, everyone, known, record.read_exceptions())
    for rule, line in lacking:
        print(f"{rule.place}: {rule.spec.id}: {line}")
    print(f"{len(lacking)} examples that no harvested producer can print")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
