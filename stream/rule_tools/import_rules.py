"""`epicenter rules import`: monitors of node-problem-detector -> a pack to review, and a list of losses."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from epicenter.rules.documents.document import parse_document
from epicenter.rules.documents.mistakes import unreadable
from epicenter.rules.errors import ConfigError, InputError
from epicenter.rules.importing.draft import Draft, Drafts
from epicenter.rules.importing.npd import import_npd
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.rules.packs.load import load
from epicenter.rules.packs.precedence import is_harmless, reports_failure
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.rule_tools.examples import AllPatterns, rules_in
from epicenter.stream.scan.scan import BatchScanner

SUPPORTED = "only monitors of node-problem-detector (JSON) are imported; docs/first-rule.md shows how to write a rule"
HEAD = """\
# Imported by `epicenter rules import`. Before you rely on a rule: choose its class, role, entity, severity and action,
# write its next steps, and put lines of your logs in place of the examples, which were made from the pattern.
pack: imported
rules:
"""


def import_rules(files: Sequence[Path], output: Path | None) -> None:
    """Print the pack, or write it; losses go to standard error.

    Raises:
        InputError: a file can't be read.
        ConfigError: with every mistake in the files.
    """
    drafts = Drafts()
    for file in files:
        _read(file, drafts)
    if drafts.problems:
        raise ConfigError([sanitize(problem) for problem in drafts.problems])
    imported = _not_shipped_yet(drafts)
    pack = (HEAD if imported else HEAD.replace("rules:", "rules: []")) + "".join(map(_shown, imported))
    if output:
        output.write_text(pack, "utf-8")
    else:
        click.echo(pack, nl=False)
    for loss in drafts.losses:
        click.echo(sanitize(loss), err=True)
    click.echo(f"{len(imported)} rules imported, {len(drafts.losses)} losses", err=True)


def _read(file: Path, drafts: Drafts) -> None:
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(unreadable(file, error)) from error
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        drafts.problems.append(f"{file}:{error.lineno}: not JSON ({error.msg}): {SUPPORTED}")
        return
    except RecursionError:
        drafts.problems.append(f"{file}:1: not JSON: nested too deep")
        return
    as_yaml = text.replace("\t", "  ").encode()
    if document := parse_document(file, lambda _: as_yaml, "file", drafts.problems):
        import_npd(document, drafts)


def _not_shipped_yet(drafts: Drafts) -> list[Draft]:
    """The drafts that no shipped rule covers, with the class of overlapping rules where these agree on one."""
    shipped = load()
    scanner = BatchScanner(shipped, "import", AllPatterns(shipped), keep_all=True, finds_liveness=False)
    silences = {rule.spec.id: rule for rule in shipped.all_rules if is_harmless(rule) or _finds_failures(rule)}
    imported = []
    for draft, overlapping in zip(drafts.drafts, _overlaps(drafts.drafts, shipped), strict=True):
        mine = _own_examples(draft, scanner, silences)
        if isinstance(mine, str):
            drafts.lose(draft.place, draft.spec["title"], f"not imported: {mine} matches such lines already")
        else:
            imported.append(_with_shipped_class(Draft(draft.place, {**draft.spec, **mine}), overlapping, drafts))
    return imported


def _own_examples(draft: Draft, scanner: BatchScanner, silences: Collection[str]) -> dict[str, Any] | str:
    """Its examples that no shipped rule matches; if none is left, the shipped rule that matches them."""
    found = {line: rules_in(scanner, line, draft.spec["source"]) for line in draft.spec["examples"]["matches"]}
    silencing = {line: {rule for ids in rules for rule in ids if rule in silences} for line, rules in found.items()}
    own = [line for line in found if not silencing[line]]
    if not own:
        return min(min(rules) for rules in silencing.values())
    matches = own if len(own) > 1 else own * 2
    return {"examples": {**draft.spec["examples"], "matches": matches}} if len(own) < len(found) else {}


def _with_shipped_class(draft: Draft, overlapping: Sequence[Rule], drafts: Drafts) -> Draft:
    """The draft with the class of the shipped rules whose examples it matches, where these agree on one."""
    if not overlapping:
        return draft
    names = ", ".join(rule.spec.id for rule in overlapping)
    drafts.lose(draft.place, draft.spec["title"], f"imported as a fallback: such lines are matched by {names}")
    classes = {rule.spec.failure_class for rule in overlapping}
    shared = {"class": classes.pop(), "entity": overlapping[0].spec.entity} if len(classes) == 1 else {}
    return Draft(draft.place, {**draft.spec, **shared})


def _overlaps(drafts: Sequence[Draft], shipped: RuleSet) -> list[list[Rule]]:
    """For each draft, the shipped rules that find failures in lines that it matches too.

    Hyperscan searches first, because no pattern can make its search slow.
    """
    found: list[list[Rule]] = [[] for _ in drafts]
    patterns = [(number, pattern) for number, draft in enumerate(drafts) for pattern in draft.spec["patterns"]]
    lines = [(rule, line) for rule in shipped.rules if _has_class(rule) for line in _examples_of(rule)]
    scanner = HyperscanScanner([pattern for _, pattern in patterns]) if patterns else None
    for line, pattern in scanner.scan([text.encode() for _, text in lines]) if scanner else ():
        (rule, text), (number, searched) = lines[line], patterns[pattern]
        if rule not in found[number] and re.search(searched, text):
            found[number].append(rule)
    return found


def _finds_failures(rule: Rule) -> bool:
    return reports_failure(rule.spec.role) and not rule.spec.fallback


def _has_class(rule: Rule) -> bool:
    return reports_failure(rule.spec.role) and "{" not in rule.spec.failure_class


def _examples_of(rule: Rule) -> Sequence[str]:
    return rule.spec.examples.matches if rule.spec.examples else ()


def _shown(draft: Draft) -> str:
    text = yaml.safe_dump([dict(draft.spec)], sort_keys=False, allow_unicode=True, width=116)
    return f"  # {draft.place}\n" + "".join(f"  {line}\n" for line in text.splitlines()) + "\n"
