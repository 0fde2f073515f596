"""docs/coverage.yaml and the packs -> docs/coverage.md: which rules detect the failures of the seed documents."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import is_named

HERE = Path(__file__).parent
MAX_SHOWN_RULES = 8
INTRODUCTION = """\
Look up a failure here to see which rules detect it, or why no log line can. The failures come from four
documents: a triage guide for job logs, an overview of failure scenarios, a guide to incomplete logs, and a list of
universal gotchas.

`make coverage` writes this page from `docs/coverage.yaml` and the rules."""


def coverage() -> str:
    """The table as Markdown."""
    rules = load()
    lines = ["# Known failures, and the rules that detect them", "", INTRODUCTION, ""]
    for document, items in yaml.safe_load((HERE / "coverage.yaml").read_text("utf-8")).items():
        lines += [f"## {document}", "", "| failure | rules |", "|---|---|"]
        lines += [f"| {name} | {answer(item, rules)} |" for name, item in items.items()]
        lines.append("")
    return "\n".join(lines)


def answer(item: dict[str, Any], rules: RuleSet) -> str:
    """The rules' ids, or why there are none; empty when a rule is missing."""
    if "why" in item:
        return f"no log line: {item['why']}"
    ids = [rule.spec.id for rule in rules.all_rules if is_meant(rule.spec.id, rule.spec.failure_class, item)]
    more = f" and {len(ids) - MAX_SHOWN_RULES} more" if len(ids) > MAX_SHOWN_RULES else ""
    return ", ".join(f"`{rule_id}`" for rule_id in ids[:MAX_SHOWN_RULES]) + more


def is_meant(rule_id: str, failure_class: str, item: dict[str, Any]) -> bool:
    """Whether an item names the rule by its class or its id."""
    by_class = is_named(failure_class, tuple(item.get("classes", ())))
    return by_class or any(fnmatch(rule_id, shape) for shape in item.get("rules", ()))


if __name__ == "__main__":
    (HERE / "coverage.md").write_text(coverage(), "utf-8")
