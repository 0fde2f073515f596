"""What `epicenter rules …` does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import orjson
import yaml

from ingest.batch import Batch
from rules.errors import ConfigError, InputError
from rules.load import CATALOG, load
from rules.match.hyperscan import Hit, HyperscanScanner, Scanner
from rules.match.reference import ReferenceScanner
from rules.ruleset import Rule, RuleSet
from rules.vocabulary import vocabulary
from stream.lint import problems
from stream.scan import BatchScanner
from stream.scenarios.check import check_all
from stream.scenarios.reading import Scenario, read_scenarios, scenario_folders

A_TIME_NS = 1_767_225_600_000_000_000
Packs = tuple[Path, ...]


def list_rules(packs: Packs, as_json: bool) -> None:
    """Print every rule, one a line."""
    for rule in load(packs).all_rules:
        spec = rule.spec
        row = {
            "rule": spec.id,
            "class": spec.failure_class,
            "parent": vocabulary().parent(spec.failure_class),
            "severity": spec.severity,
            "role": spec.role,
            "title": spec.title,
        }
        click.echo(
            orjson.dumps(row) if as_json else f"{spec.id:<32} {spec.failure_class:<24} {spec.severity:<9} {spec.title}"
        )


def show_rule(packs: Packs, rule_id: str) -> None:
    """Print one rule as YAML."""
    rule = load(packs).by_id.get(rule_id)
    if rule is None:
        raise InputError(f"{rule_id}: no such rule; `epicenter rules list` shows all")
    fields = rule.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if parent := vocabulary().parent(rule.spec.failure_class):
        fields["parent"] = parent
    click.echo(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=120), nl=False)


def lint_rules(packs: Packs) -> bool:
    """Check the packs' form and how the rules agree; true when there were problems."""
    try:
        rules = load(packs)
    except ConfigError as error:
        click.echo(str(error))
        return True
    found = problems(rules)
    for problem in found:
        click.echo(problem)
    what = f"{len(found)} problems" if found else "no problems"
    click.echo(f"{len(rules.rules)} rules, {len(rules.all_rules)} with table rows, {len(rules.edges)} edges: {what}")
    return bool(found)


def test_rules(packs: Packs, scenarios: Sequence[Path] = (), only_scenarios: bool = False) -> bool:
    """Hold each rule against its examples, with both ways of matching, and play the scenarios; true when one fails.

    Those in a folder `scenarios` beside a pack are played too. With packs of one's own, the slow way is asked of these.
    """
    rules = load(packs)
    stories = read_scenarios(dict.fromkeys((*scenario_folders(packs), *scenarios)))
    if only_scenarios and not stories:
        raise click.UsageError("there are no scenarios: give --scenarios, or put a folder `scenarios` beside your pack")
    has_wrong_examples = not only_scenarios and _test_examples(rules, only_own=bool(packs))
    return _test_scenarios(rules, stories) or has_wrong_examples


def _test_examples(rules: RuleSet, only_own: bool) -> bool:
    reference = ReferenceScanner((*rules.expressions, *rules.expressions_beside))
    slowly = [rule for rule in rules.rules if not (only_own and rule.place.startswith(f"{CATALOG}/"))]
    failures = [f"{failure} (by Hyperscan)" for failure in example_failures(rules, AllPatterns(rules))]
    failures += [f"{failure} (by re)" for failure in example_failures(rules, reference, slowly)]
    for failure in failures:
        click.echo(failure)
    examples = sum(
        len(one.spec.examples.matches) + len(one.spec.examples.near_misses) for one in rules.rules if one.spec.examples
    )
    click.echo(f"{len(rules.rules)} rules, {examples} examples, {len(failures)} failures")
    return bool(failures)


def _test_scenarios(rules: RuleSet, stories: Sequence[Scenario]) -> bool:
    if not stories:
        return False
    outcome = check_all(stories, rules)
    for failure in outcome.failures:
        click.echo(failure)
    click.echo(
        f"{len(stories)} scenarios, {outcome.expectations} expectations, {outcome.runs} runs, restarts at "
        f"{outcome.restarts} of {outcome.points} points, {len(outcome.failures)} failures"
    )
    return bool(outcome.failures)


class AllPatterns:
    """Searches for every pattern, those too that are only asked beside failures, as compiled for use."""

    def __init__(self, rules: RuleSet):
        self._first_beside = len(rules.expressions)
        self._usual = HyperscanScanner(rules.expressions, rules.marks)
        self._beside = HyperscanScanner(rules.expressions_beside) if rules.expressions_beside else None

    def scan(self, values: Sequence[bytes]) -> list[Hit]:
        """Candidates in order."""
        beside = self._beside.scan(values) if self._beside else []
        return sorted(
            [*self._usual.scan(values), *((record, self._first_beside + number) for record, number in beside)]
        )


def example_failures(rules: RuleSet, scanner: Scanner, of: Iterable[Rule] | None = None) -> list[str]:
    """Each example (of some rules, or of all) that does not do as it should, in words."""
    batch_scanner = BatchScanner(rules, "test", scanner, keep_all=True)
    return [failure for rule in (rules.rules if of is None else of) for failure in _failures(rule, batch_scanner)]


def _failures(rule: Rule, scanner: BatchScanner) -> list[str]:
    examples = rule.spec.examples
    if examples is None:
        return []
    wanted = [(line, True) for line in examples.matches] + [(line, False) for line in examples.near_misses]
    return [
        f"{rule.place}: {rule.spec.id}: should {'fit' if should_fit else 'not fit'}: {line}"
        for line, should_fit in wanted
        if _fits(rule, scanner, line) != (should_fit, should_fit)
    ]


def _fits(rule: Rule, scanner: BatchScanner, line: str) -> tuple[bool, ...]:
    """Whether the rule fits the line as it is, and in an envelope."""
    own = {rule.spec.id, *(finer.spec.id for finer in rule.finer.values())}
    return tuple(not own.isdisjoint(found) for found in rules_in(scanner, line, rule.spec.source))


def rules_in(scanner: BatchScanner, line: str, source: str) -> tuple[set[str], ...]:
    """The ids of the rules that fit the line as it is, and in an envelope."""
    values = (line.encode(), orjson.dumps({"message": line, "source": source}))
    batches = (Batch("example", [value], [None], [A_TIME_NS], [1]) for value in values)
    return tuple({found.rule for found in scanner.scan(batch).matches} for batch in batches)
