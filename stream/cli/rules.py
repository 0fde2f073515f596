"""`epicenter rules …`: list, show, check and import rules."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from epicenter.stream.cli.groups import SuggestingGroup
from epicenter.stream.cli.options import EXIT_PROBLEMS, JSON, ONE_JSON, OUTPUT_PATH, PATH, RULES, writing


@click.group(cls=SuggestingGroup)
def rules() -> None:
    """List, show, test and import rules.

    Example: epicenter rules test
    """


@rules.command("list")
@RULES
@JSON
def rules_list(rules: tuple[Path, ...], as_json: bool) -> None:
    """List every rule.

    Example: epicenter rules list
    """
    from epicenter.stream.cli.rule_checks import list_rules

    list_rules(rules, as_json)


@rules.command("show")
@click.argument("name", metavar="RULE|CLASS")
@RULES
@JSON
def rules_show(name: str, rules: tuple[Path, ...], as_json: bool) -> None:
    """Show a rule, or every rule of a class. With its meaning, next steps and examples.

    Example: epicenter rules show xid-79
    """
    from epicenter.stream.cli.rule_checks import show_rules

    show_rules(rules, name, as_json)


@rules.command("test")
@RULES
@click.option("--scenarios", type=PATH, multiple=True, help="Add your scenarios: file or folder.")
@click.option("--only-scenarios", is_flag=True, help="Skip the rules' examples.")
@ONE_JSON
def rules_test(rules: tuple[Path, ...], scenarios: tuple[Path, ...], only_scenarios: bool, as_json: bool) -> None:
    """Test every rule on its examples, and play scenarios. Exit 1 if one fails.

    Example: epicenter rules test --rules my-pack.yaml --scenarios my-scenarios/
    """
    from epicenter.stream.cli.rule_checks import test_rules

    sys.exit(EXIT_PROBLEMS if test_rules(rules, scenarios, only_scenarios, as_json) else 0)


@rules.command("lint")
@RULES
@ONE_JSON
def rules_lint(rules: tuple[Path, ...], as_json: bool) -> None:
    """Check rule packs. Exit 1 and list every problem with file and line.

    Example: epicenter rules lint --rules my-pack.yaml
    """
    from epicenter.stream.cli.rule_checks import lint_rules

    sys.exit(EXIT_PROBLEMS if lint_rules(rules, as_json) else 0)


@rules.command("import")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@click.option("--from", type=click.Choice(["npd"]), expose_value=False, hidden=True)
@click.option("--output", type=OUTPUT_PATH, help="Write to this file, not to standard output.")
def rules_import(files: tuple[Path, ...], output: Path | None) -> None:
    """Convert monitors of node-problem-detector to a rule pack. Review it; what can't be converted is listed.

    Example: epicenter rules import kernel-monitor.json --output imported.yaml
    """
    from epicenter.stream.rule_tools.import_rules import import_rules

    with writing(output or "standard output"):
        import_rules(files, output)


@rules.command("draft")
@click.argument("text", metavar="TEXT")
@click.argument("files", nargs=-1, type=PATH, metavar="[FILE]...")
@click.option("--output", type=OUTPUT_PATH, help="Write to this file, not to standard output.")
def rules_draft(text: str, files: tuple[Path, ...], output: Path | None) -> None:
    """Draft a rule for lines like TEXT. TEXT is a line, or a template as `epicenter unnamed` prints it.

    Such lines of each FILE become the rule's examples.

    Example: epicenter rules draft "lamp of shaft 7 went out" train.log --output my-pack.yaml
    """
    from epicenter.stream.rule_tools.draft_rule import draft_rule

    with writing(output or "standard output"):
        draft_rule(text, files, output)
