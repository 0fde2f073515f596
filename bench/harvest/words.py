"""What the words of messages suggest, as if no rule named one: how often, and whether readers judged the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from bench.harvest.fill import lines_of
from bench.harvest.labels import Label
from bench.harvest.matching import batch_of
from bench.harvest.score import Share
from bench.harvest.template import Template
from epicenter.rules.model.signals import UNNAMED, UNNAMED_RULES
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.stream.scan.scan import BatchScanner

COLUMNS = ("fatal", "fitting", "noise", "info")


class WordsRow(NamedTuple):
    """How many of a producer's messages get a suggestion: of those judged fatal or noise, and of the others of `info`.

    `fitting`: how many suggestions for fatal messages fit, where a reader gave a class.
    """

    producer: str
    fatal: Share
    fitting: Share
    noise: Share
    info: Share


def suggestions(templates: Sequence[Template], rules: RuleSet) -> dict[str, str]:
    """The class that the words of messages suggest, by the id of those that have one. A worker prints them all."""
    by_words = replace(rules, rules=tuple(rule for rule in rules.rules if rule.spec.id.startswith(UNNAMED_RULES)))
    lines = [(template.id, line) for template in templates for line in lines_of(template, 0)]
    scanned = BatchScanner(by_words, "harvest", keep_all=True).scan(batch_of([line for _, line in lines]))
    found: dict[str, str] = {}
    for match in scanned.matches:
        suggested = by_words.of(match).spec.failure_class
        if suggested != UNNAMED:
            found.setdefault(lines[match.event.position.offset - 1][0], suggested)
    return found


def words_row(
    producer: str, templates: Sequence[Template], suggested: Mapping[str, str], labels: Mapping[str, Label]
) -> WordsRow:
    """The figures of a producer's messages."""
    verdicts = {template.id: labels[template.id].verdict for template in templates if template.id in labels}
    fatal, noise = ([name for name, found in verdicts.items() if found == verdict] for verdict in ("fatal", "noise"))
    info = [template.id for template in templates if template.level == "info" and template.id not in labels]
    judged = [name for name in fatal if name in suggested and _classes(labels[name])]
    return WordsRow(
        producer,
        _share(fatal, suggested),
        Share(sum(fits(suggested[name], labels[name]) for name in judged), len(judged)),
        _share(noise, suggested),
        _share(info, suggested),
    )


def fits(suggested: str, label: Label) -> bool:
    """Whether a reader gave this class, its parent or a child of it."""
    known = vocabulary()
    return any(suggested in known.counts_as(name) or name in known.counts_as(suggested) for name in _classes(label))


def as_table(rows: Sequence[WordsRow]) -> str:
    """A line for each producer, and one for all together."""
    lines = [f"{'producer':16}" + "".join(f"{column:>20}" for column in COLUMNS)]
    lines += [f"{row.producer:16}" + "".join(map(_cell, row[1:])) for row in (*rows, _total(rows))]
    return "\n".join(lines)


def _cell(share: Share) -> str:
    percent = f"{share.hits / share.total:.0%}" if share.total else "–"
    return f"{share.hits:>8} of {share.total:<4} {percent:>4}"


def _total(rows: Iterable[WordsRow]) -> WordsRow:
    columns = zip(*(row[1:] for row in rows), strict=True)
    return WordsRow(
        "all", *(Share(sum(share.hits for share in column), sum(share.total for share in column)) for column in columns)
    )


def _classes(label: Label) -> set[str]:
    return {name for name in (label.class_a, label.class_b) if name}


def _share(ids: Sequence[str], suggested: Mapping[str, str]) -> Share:
    return Share(sum(name in suggested for name in ids), len(ids))
