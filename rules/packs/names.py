"""The names in a window: of rules, of classes, and of fields that every input has."""

from __future__ import annotations

from typing import Final

from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.spec import is_named

STEP: Final = "step"
"""The name of a completed training step as an input, with the fields `step` and `step_time_s`."""


IDENTITY: Final = ("cluster", "node", "source", "job", "rank", "gpu", "rule", "class", "pod")
"""Fields that every input has in addition to its own."""


def is_rule_id(name: str) -> bool:
    """Whether a name is a rule's id; otherwise it is a class."""
    return "." in name


def ids_of(rules: RuleSet, rule_id: str) -> list[str]:
    """The ids of the rule and of the rules of its table; empty if there is no such rule."""
    rule = rules.by_id.get(rule_id)
    return [rule_id, *(finer.spec.id for finer in rule.finer.values())] if rule else []


def rules_named(rules: RuleSet, name: str) -> list[Rule]:
    """The rules whose signals a name selects."""
    if is_rule_id(name):
        return [rules.by_id[rule_id] for rule_id in ids_of(rules, name)]
    if name not in rules.named:
        rules.named[name] = [rule for rule in rules.all_rules if _may_be(rule.spec.failure_class, name)]
    return rules.named[name]


def _may_be(failure_class: str, wanted: str) -> bool:
    template, is_template = failure_class.partition("{")[0], "{" in failure_class
    return is_named(failure_class, (wanted,)) or (is_template and wanted.startswith(template))
