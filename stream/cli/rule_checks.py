"""The work of `epicenter rules …`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import orjson
import yaml

from epicenter.rules.documents.mistakes import instead
from epicenter.rules.errors import ConfigError, InputError
from epicenter.rules.match.reference import ReferenceScanner
from epicenter.rules.packs.load import CATALOG, load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.vocabulary import vocabulary
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
        click.echo(
            orjson.dumps(row) if as_json else f"{spec.id:<32} {spec.failure_class:<24} {spec.severity:<9} {spec.title}"
        )


def show_rule(packs: Packs, rule_id: str) -> None:
    """Print one rule as YAML."""
    rules = load(packs).by_id
    rule = rules.get(rule_id)
    if rule is None:
        raise InputError(f"{rule_id}: no such rule: {instead(rule_id, rules, '`epicenter rules list`')}")
    fields = rule.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if parent := vocabulary().parent(rule.spec.failure_class):
        fields["parent"] = parent
    click.echo(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=120), nl=False)


def lint_rules(packs: Packs) -> bool:
    """Check the packs and whether their rules contradict each other; true if there are problems."""
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
    """Test each rule on its examples with both matchers, and play the scenarios; true if any of them fails.

    Plays the scenarios in a folder `scenarios` next to a pack too. The slow matcher tests only given packs, if any.
    """
    rules = load(packs)
    stories = read_scenarios(dict.fromkeys((*scenario_folders(packs), *scenarios)))
    for text in [text for story in stories for text in story.warnings]:
        warn(text)
    if only_scenarios and not stories:
        raise click.UsageError("no scenarios found: give --scenarios, or add a folder `scenarios` next to your pack")
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
        len(rule.spec.examples.matches) + len(rule.spec.examples.near_misses)
        for rule in rules.rules
        if rule.spec.examples
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
