"""Tests rules on their examples: each line that must match, and each near miss."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.match.hyperscan import GroupedScanner, HyperscanScanner, Scanner
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.stream.scan.scan import BatchScanner

A_TIME_NS = 1_767_225_600_000_000_000


class AllPatterns(GroupedScanner):
    """Searches for every pattern, including those that are only searched in a triage or near failures."""

    def __init__(self, rules: RuleSet):
        usual = HyperscanScanner(rules.expressions, rules.marks)
        super().__init__(usual, rules.expressions_in_triage, rules.expressions_beside)


def example_failures(rules: RuleSet, scanner: Scanner, of: Iterable[Rule] | None = None) -> list[str]:
    """A message for each example (of some rules, or of all) with the wrong result."""
    batch_scanner = BatchScanner(rules, "test", scanner, keep_all=True, finds_liveness=False)
    return [failure for rule in (rules.rules if of is None else of) for failure in _failures(rule, batch_scanner)]


def _failures(rule: Rule, scanner: BatchScanner) -> list[str]:
    examples = rule.spec.examples
    if examples is None:
        return []
    wanted = [(line, True) for line in examples.matches] + [(line, False) for line in examples.near_misses]
    return [
        f"{rule.place}: {rule.spec.id}: must {'match' if should_fit else 'not match'} this line: {line}"
        for line, should_fit in wanted
        if _fits(rule, scanner, line) != (should_fit, should_fit)
    ]


def _fits(rule: Rule, scanner: BatchScanner, line: str) -> tuple[bool, ...]:
    """Whether the rule matches the line as it is, and in an envelope."""
    own = {rule.spec.id, *(finer.spec.id for finer in rule.finer.values())}
    return tuple(not own.isdisjoint(found) for found in rules_in(scanner, line, rule.spec.source))


def rules_in(scanner: BatchScanner, line: str, source: str) -> tuple[set[str], ...]:
    """The ids of the rules that match the line as it is, and in an envelope."""
    values = (line.encode(), orjson.dumps({"message": line, "source": source}))
    batches = (Batch("example", [value], [None], [A_TIME_NS], [1]) for value in values)
    return tuple({found.rule for found in scanner.scan(batch).matches} for batch in batches)
