"""docs/coverage.yaml and the packs -> docs/coverage.md: which rules answer what the seed documents name."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import is_named

HERE = Path(__file__).parent
SHOWN_RULES = 8


def coverage() -> str:
    """The table as Markdown."""
    rules = load()
    lines = ["# What the seed documents name, and the rules that answer it", "", "Made by `make coverage`.", ""]
    for document, items in yaml.safe_load((HERE / "coverage.yaml").read_text("utf-8")).items():
        lines += [f"## {document}", "", "| item | rules |", "|---|---|"]
        lines += [f"| {item} | {answer(told, rules)} |" for item, told in items.items()]
        lines.append("")
    return "\n".join(lines)


def answer(told: dict[str, Any], rules: RuleSet) -> str:
    """The rules' ids, or why there are none; empty when a rule is missing."""
    if "why" in told:
        return f"no line: {told['why']}"
    ids = [rule.spec.id for rule in rules.all_rules if is_meant(rule.spec.id, rule.spec.failure_class, told)]
    more = f" and {len(ids) - SHOWN_RULES} more" if len(ids) > SHOWN_RULES else ""
    return ", ".join(f"`{one}`" for one in ids[:SHOWN_RULES]) + more


def is_meant(rule_id: str, failure_class: str, told: dict[str, Any]) -> bool:
    """Whether an item names the rule by its class or its id."""
    by_class = is_named(failure_class, tuple(told.get("classes", ())))
    return by_class or any(fnmatch(rule_id, shape) for shape in told.get("rules", ()))


if __name__ == "__main__":
    (HERE / "coverage.md").write_text(coverage(), "utf-8")
