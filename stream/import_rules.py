"""What `epicenter rules import` does: files of other tools -> a pack to look through, and what was lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import yaml

from rules.document import Document, parse_document
from rules.errors import ConfigError, InputError
from rules.importing.draft import UNKNOWN_CLASS, Draft, Drafts
from rules.importing.npd import import_npd
from rules.importing.sec import import_sec
from rules.importing.sigma import import_sigma
from rules.load import load
from rules.ruleset import Rule, RuleSet
from rules.standing import says_failure
from sinks.inert import make_inert

TOOLS = {".json": "npd", ".yml": "sigma", ".yaml": "sigma"}
HEAD = """\
# Imported by `epicenter rules import`. Before you rely on a rule: choose its class, role, entity, severity and action,
# write its next steps, and put lines of your logs in place of the examples, which were made from the pattern.
pack: imported
rules:
"""


def import_rules(files: Sequence[Path], tool: str | None, output: Path | None) -> None:
    """Print the pack, or write it; what is lost goes to standard error.

    Raises:
        InputError: a file can't be read.
        ConfigError: with every mistake in the files.
    """
    drafts = Drafts()
    for file in files:
        _read(file, tool or TOOLS.get(file.suffix, "sec"), drafts)
    if drafts.problems:
        raise ConfigError([make_inert(problem) for problem in drafts.problems])
    shipped = load()
    pack = HEAD + "".join(_shown(_known(draft, shipped, drafts)) for draft in drafts.drafts)
    if output:
        output.write_text(pack, "utf-8")
    else:
        click.echo(pack, nl=False)
    for loss in drafts.losses:
        click.echo(make_inert(loss), err=True)
    click.echo(f"{len(drafts.drafts)} rules imported, {len(drafts.losses)} losses", err=True)


def _read(file: Path, tool: str, drafts: Drafts) -> None:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: can't be read: {error}") from error
    if tool == "sec":
        import_sec(str(file), text, drafts)
    elif tool == "npd":
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            drafts.problems.append(f"{file}:{error.lineno}: not JSON: {error.msg}")
            return
        for document in _documents(file, [text.replace("\t", "  ")], drafts):
            import_npd(document, drafts)
    else:
        import_sigma(list(_documents(file, list(_parts(text)), drafts)), drafts)


def _parts(text: str) -> Iterator[str]:
    """The documents of a YAML file, each with as many lines in front of it as it has there."""
    lines: list[str] = []
    for number, line in enumerate(text.splitlines()):
        if re.match(r"---\s*$", line):
            yield "\n".join(lines)
            lines = [""] * (number + 1)
        else:
            lines.append(line)
    yield "\n".join(lines)


def _documents(file: Path, texts: Sequence[str], drafts: Drafts) -> Iterator[Document]:
    for text in texts:
        encoded = text.encode()
        if text.strip() and (document := parse_document(file, lambda _: encoded, "file", drafts.problems)):  # noqa: B023
            yield document


def _known(draft: Draft, shipped: RuleSet, drafts: Drafts) -> Draft:
    """The draft with the class of the shipped rules whose own examples it fits, where they agree on one."""
    if draft.spec["class"] != UNKNOWN_CLASS or not (found := [rule for rule in shipped.rules if _fits(draft, rule)]):
        return draft
    names = ", ".join(rule.spec.id for rule in found)
    drafts.lose(draft.place, draft.spec["title"], f"kept as a fallback: such lines are found by {names}")
    classes = {rule.spec.failure_class for rule in found}
    told = {"class": classes.pop(), "entity": found[0].spec.entity} if len(classes) == 1 else {}
    return Draft(draft.place, {**draft.spec, **told})


def _fits(draft: Draft, rule: Rule) -> bool:
    """Whether a shipped rule finds failures in lines that the draft fits too."""
    spec = rule.spec
    if not spec.examples or not says_failure(spec.role) or "{" in spec.failure_class:
        return False
    return any(re.search(one, line) for line in spec.examples.matches for one in draft.spec.get("patterns", ()))


def _shown(draft: Draft) -> str:
    text = yaml.safe_dump([dict(draft.spec)], sort_keys=False, allow_unicode=True, width=116)
    return f"  # {draft.place}\n" + "".join(f"  {line}\n" for line in text.splitlines()) + "\n"
