"""Which rules name a message: every filling of it is scanned by itself, as `epicenter match` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import orjson

from bench.harvest.fill import FILLS, lines_of
from bench.harvest.template import Template
from epicenter.ingest.batch.batch import Batch
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.rules.model.signals import ERRORS
from epicenter.rules.packs.precedence import reports_failure
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import RuleSpec
from epicenter.stream.scan.scan import BatchScanner

How = Literal["specific", "shape", "unnamed"]
_A_TIME_NS = 1_767_225_600_000_000_000
_BY_SHAPE = ("python.exception_line",)
MEANINGLESS = (
    "the quick brown fox",
    "failed to feed the fox",
    "fox error: cannot jump, invalid dog",
    "jump failed with error -5",
    "timeout while the fox was jumping",
)
"""A rule that names one of these in a producer's line names messages by the shape of the line, or by such words."""


class Named(NamedTuple):
    """The failure rules that match a message. `how`: by its text, only by the shape of its line, or not at all.

    A `fallback` says nothing about that: many know a text, and only step back behind other rules.
    """

    how: How
    rules: tuple[str, ...]
    classes: tuple[str, ...]
    is_error: bool


class Matcher:
    """Says which rules name a message."""

    def __init__(self, rules: RuleSet):
        self._rules = rules
        self._lines = HyperscanScanner(rules.expressions, rules.marks)
        self._scanner = BatchScanner(rules, "harvest", self._lines)

    def named(self, templates: Sequence[Template]) -> dict[str, Named]:
        """How each message is named, by its id: by any of its fillings."""
        rules: dict[str, set[str]] = {template.id: set() for template in templates}
        for template, lines in self._worth_scanning(templates):
            rules[template.id] |= self._matching(lines, template.source)
        return {template.id: self._named(template, sorted(rules[template.id])) for template in templates}

    def _matching(self, lines: Sequence[str], source: str) -> set[str]:
        return {match.rule for match in self._scanner.scan(batch_of(lines, source)).matches}

    def _by_shape(self, shape: str, source: str) -> set[str]:
        """The rules that name a meaningless message in such a line."""
        found = (self._matching(shape.replace("{message}", text).split("\n"), source) for text in MEANINGLESS)
        return set().union(*found)

    def _worth_scanning(self, templates: Sequence[Template]) -> list[tuple[Template, list[str]]]:
        """The fillings in which any pattern may match: one search for all of them."""
        fillings = [(template, lines_of(template, number)) for template in templates for number in range(FILLS)]
        owners = [number for number, (_, lines) in enumerate(fillings) for _ in lines]
        hits = self._lines.scan([_encoded(line) for _, lines in fillings for line in lines])
        return [fillings[number] for number in sorted({owners[record] for record, _ in hits})]

    def _named(self, template: Template, ids: Sequence[str]) -> Named:
        specs = [spec for spec in map(self._spec, ids) if reports_failure(spec.role)]
        how: How = "unnamed"
        if specs:
            by_shape = self._by_shape(template.shape, template.source)
            how = "shape" if all(_is_by_shape(spec) or spec.id in by_shape for spec in specs) else "specific"
        is_error = any(spec.severity in ERRORS for spec in specs)
        classes = sorted({spec.failure_class for spec in specs})
        return Named(how, tuple(spec.id for spec in specs), tuple(classes), is_error)

    def _spec(self, rule_id: str) -> RuleSpec:
        return self._rules.by_id[rule_id].spec


def batch_of(lines: Sequence[str], source: str = "") -> Batch:
    """The lines as a batch; offsets count from 1. `source` is what an envelope names, none if it is empty."""
    if source:
        values = [orjson.dumps({"message": line, "source": source}) for line in lines]
    else:
        values = list(map(_encoded, lines))
    count = len(values)
    return Batch("harvest", values, [None] * count, [_A_TIME_NS] * count, range(1, count + 1))


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", "replace")


def _is_by_shape(spec: RuleSpec) -> bool:
    return spec.id in _BY_SHAPE or spec.knows_only_structure
