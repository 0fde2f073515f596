"""The names in a window: of rules, of classes, and of what every input has."""

from __future__ import annotations

from typing import Final

from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.spec import is_named

STEP: Final = "step"
"""The name of what progress tells: a job completed a step, with `step` and `step_time_s`."""


IDENTITY: Final = ("cluster", "node", "source", "job", "rank", "gpu", "rule", "class", "pod")
"""What every input has beside its own fields."""


def is_rule_id(name: str) -> bool:
    """Whether a name means a rule; else it means a class."""
    return "." in name


def ids_of(rules: RuleSet, rule_id: str) -> list[str]:
    """The rule and those of its table."""
    rule = rules.by_id.get(rule_id)
    return [rule_id, *(finer.spec.id for finer in rule.finer.values())] if rule else []


def rules_named(rules: RuleSet, name: str) -> list[Rule]:
    """The rules whose signals a name stands for."""
    if is_rule_id(name):
        return [rules.by_id[rule_id] for rule_id in ids_of(rules, name)]
    return [rule for rule in rules.all_rules if _may_be(rule.spec.failure_class, name)]


def _may_be(failure_class: str, wanted: str) -> bool:
    template, is_template = failure_class.partition("{")[0], "{" in failure_class
    return is_named(failure_class, (wanted,)) or (is_template and wanted.startswith(template))
