"""The work of `epicenter rules …`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from epicenter.rules.documents.mistakes import instead
from epicenter.rules.errors import ConfigError, InputError
from epicenter.rules.match.reference import ReferenceScanner
from epicenter.rules.packs.load import CATALOG, load
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.sinks.text.sanitize import sanitized_json
from epicenter.stream.cli.options import warn
from epicenter.stream.rule_tools.examples import AllPatterns, example_failures
from epicenter.stream.rule_tools.lint import problems
from epicenter.stream.scenarios.reading import Scenario, read_scenarios, scenario_folders
from epicenter.stream.scenarios.variations import check_all

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
        line = f"{spec.id:<32} {spec.failure_class:<24} {spec.severity:<9} {spec.title}"
        click.echo(sanitized_json(row) if as_json else line)


def show_rules(packs: Packs, name: str, as_json: bool) -> None:
    """Print the rule with this id, or every rule of this class, as YAML documents or lines of JSON."""
    rules = load(packs)
    shown = list(map(_fields, _named(rules, name)))
    if not shown:
        known = [*rules.by_id, *(rule.spec.failure_class for rule in rules.all_rules)]
        raise InputError(f"{name}: no such rule or class: {instead(name, known, '`epicenter rules list`')}")
    if as_json:
        for fields in shown:
            click.echo(sanitized_json(fields))
    else:
        click.echo(yaml.safe_dump_all(shown, sort_keys=False, allow_unicode=True, width=120), nl=False)


def _named(rules: RuleSet, name: str) -> Sequence[Rule]:
    if rule := rules.by_id.get(name):
        return [rule]
    failure_class = vocabulary().aliases.get(name, name)
    return [rule for rule in rules.all_rules if rule.spec.failure_class == failure_class]


def _fields(rule: Rule) -> dict[str, Any]:
    fields = rule.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    parent = vocabulary().parent(rule.spec.failure_class)
    return {**fields, "parent": parent} if parent else fields


def lint_rules(packs: Packs, as_json: bool) -> bool:
    """Check the packs and whether their rules contradict each other; true if there are problems."""
    try:
        rules = load(packs)
    except ConfigError as error:
        click.echo(sanitized_json({"problems": error.problems}) if as_json else str(error))
        return True
    found = problems(rules)
    if as_json:
        numbers = {"rules": len(rules.rules), "with_table_rows": len(rules.all_rules), "edges": len(rules.edges)}
        click.echo(sanitized_json({**numbers, "problems": found}))
        return bool(found)
    for problem in found:
        click.echo(problem)
    what = f"{len(found)} problems" if found else "no problems"
    click.echo(f"{len(rules.rules)} rules, {len(rules.all_rules)} with table rows, {len(rules.edges)} edges: {what}")
    return bool(found)


def test_rules(
    packs: Packs, scenarios: Sequence[Path] = (), only_scenarios: bool = False, as_json: bool = False
) -> bool:
    """Test each rule on its examples with both matchers, and play the scenarios; true if any of them fails.

    Plays the scenarios in a folder `scenarios` next to a pack too. The slow matcher tests only given packs, if any.
    """
    rules = load(packs)
    stories = read_scenarios(dict.fromkeys((*scenario_folders(packs), *scenarios)))
    for text in [text for story in stories for text in story.warnings]:
        warn(text)
    if only_scenarios and not stories:
        raise click.UsageError("no scenarios found: give --scenarios, or add a folder `scenarios` next to your pack")
    found: list[Tested] = [] if only_scenarios else [_test_examples(rules, only_own=bool(packs))]
    found += [_test_scenarios(rules, stories)] if stories else []
    failures = [failure for tested in found for failure in tested.failures]
    if as_json:
        numbers = {name: number for tested in found for name, number in tested.numbers.items()}
        click.echo(sanitized_json({**numbers, "failures": failures}))
        return bool(failures)
    for tested in found:
        for failure in tested.failures:
            click.echo(failure)
        click.echo(f"{tested.text}, {len(tested.failures)} failures")
    return bool(failures)


class Tested(NamedTuple):
    """The failures of a test, and how much was tested, as text and as numbers."""

    failures: list[str]
    text: str
    numbers: dict[str, int]


def _test_examples(rules: RuleSet, only_own: bool) -> Tested:
    reference = ReferenceScanner((*rules.expressions, *rules.expressions_in_triage, *rules.expressions_beside))
    slowly = [rule for rule in rules.rules if not (only_own and rule.place.startswith(f"{CATALOG}/"))]
    failures = [f"{failure} (by Hyperscan)" for failure in example_failures(rules, AllPatterns(rules))]
    failures += [f"{failure} (by re)" for failure in example_failures(rules, reference, slowly)]
    examples = sum(
        len(rule.spec.examples.matches) + len(rule.spec.examples.near_misses)
        for rule in rules.rules
        if rule.spec.examples
    )
    text = f"{len(rules.rules)} rules, {examples} examples"
    return Tested(failures, text, {"rules": len(rules.rules), "examples": examples})


def _test_scenarios(rules: RuleSet, stories: Sequence[Scenario]) -> Tested:
    outcome = check_all(stories, rules)
    text = (
        f"{len(stories)} scenarios, {outcome.expectations} expectations, {outcome.runs} runs, restarts at "
        f"{outcome.restarts} of {outcome.points} points"
    )
    numbers = {"scenarios": len(stories), "expectations": outcome.expectations, "runs": outcome.runs}
    return Tested(outcome.failures, text, {**numbers, "restarts": outcome.restarts, "points": outcome.points})
