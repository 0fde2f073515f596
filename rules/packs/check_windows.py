"""Checks the windows of a whole rule set: unknown names and fields, and windows that feed themselves."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from epicenter.rules.packs.decode import ADDED
from epicenter.rules.packs.names import IDENTITY, STEP, is_rule_id, rules_named
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.windows import WhenSpec

_FIGURES: Final[Mapping[str, tuple[str, ...]]] = {
    "threshold": ("value",),
    "slope": ("first", "last", "rise_percent"),
    "spike": ("usual", "value", "rise_percent"),
    "rate": ("usual",),
}
_OF_ALL_KINDS: Final = ("count", "span_s")
_PLACE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Fault:
    """A problem and its place in the rule: a key of its `when`, and a position in that key's list."""

    rule_id: str
    path: tuple[str | int, ...]
    message: str


def faults(rules: RuleSet, switched_off: Collection[str] = ()) -> list[Fault]:
    """Every problem of the windows. Names of switched-off rules are accepted."""
    windows = [rule for rule in rules.rules if rule.spec.when]
    found = [fault for rule in windows for fault in _of_names(rules, rule, switched_off)]
    return [*found, *(fault for rule in windows for fault in _of_fields(rules, rule)), *_of_chains(rules, windows)]


def _of_names(rules: RuleSet, rule: Rule, switched_off: Collection[str]) -> Iterator[Fault]:
    when = _when(rule)
    for key, names in (("of", when.of), ("without", when.without)):
        for number, name in enumerate(names):
            if name == STEP or name in switched_off or rules_named(rules, name):
                continue
            what = "rule: `epicenter rules list` shows all" if is_rule_id(name) else "class: no rule finds it"
            yield Fault(rule.spec.id, (key, number), f"{name}: unknown {what}")


def _of_fields(rules: RuleSet, rule: Rule) -> Iterator[Fault]:
    when = _when(rule)
    fields = _fields_of(rules, when.of)
    missing_fields = _fields_of(rules, when.without) if when.without else None
    for key, names in (("field", when.field), ("minus", when.minus), ("group_by", when.group_by)):
        for number, name in enumerate(names):
            if fields is not None and name not in fields:
                yield Fault(rule.spec.id, (key, number), f"no input has a field {name}: {_one_of(fields)}")
            elif key == "group_by" and missing_fields is not None and name not in missing_fields:
                yield Fault(rule.spec.id, (key, number), f"no input in `without` has a field {name}: remove it")
    for name in when.where:
        if fields is not None and name not in fields:
            yield Fault(rule.spec.id, ("where", name), f"no input has a field {name}: {_one_of(fields)}")
    known = placeholders(when)
    for name in _PLACE.findall(when.text):
        if name not in known:
            yield Fault(rule.spec.id, ("text",), f"{{{name}}} is unknown here: {_one_of(known)}")


def placeholders(when: WhenSpec) -> set[str]:
    """The fields of the window's signals."""
    return {*_OF_ALL_KINDS, *_FIGURES.get(when.kind, ()), *when.group_by}


def _one_of(fields: Collection[str]) -> str:
    return f"write one of {', '.join(sorted(fields))}"


def _fields_of(rules: RuleSet, names: Iterable[str]) -> set[str] | None:
    """The fields that some inputs may have; None if they can't be determined."""
    fields = set(IDENTITY)
    for name in names:
        if name == STEP:
            fields |= {"step", "step_time_s"}
        named = rules_named(rules, name)
        if not named and name != STEP:
            return None
        try:
            fields = fields.union(*map(_fields, named))
        except (re.error, OverflowError, RecursionError):
            return None
    return fields


def _fields(rule: Rule) -> set[str]:
    if when := rule.spec.when:
        return {*_OF_ALL_KINDS, *_FIGURES.get(when.kind, ()), *when.group_by}
    named = {name for pattern in (*rule.patterns, *rule.extract, *rule.extract_of_block) for name in pattern.groupindex}
    return named | set(ADDED if rule.spec.decode else ())


def _of_chains(rules: RuleSet, windows: Iterable[Rule]) -> Iterator[Fault]:
    inputs = {
        rule.spec.id: {
            source.spec.id: (key, number)
            for key, names in (("without", _when(rule).without), ("of", _when(rule).of))
            for number, name in enumerate(names)
            for source in rules_named(rules, name)
            if source.spec.when
        }
        for rule in windows
    }
    reported: set[frozenset[str]] = set()
    for rule_id in inputs:
        chain = _back_to(rule_id, inputs)
        if chain and frozenset(chain) not in reported:
            reported.add(frozenset(chain))
            names = " <- ".join((*chain, rule_id))
            yield Fault(
                rule_id,
                inputs[rule_id][chain[1 % len(chain)]],
                f"a window that feeds itself: {names}: remove one of its inputs",
            )


def _back_to(rule_id: str, inputs: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The shortest chain from a window through its inputs back to itself; empty if there is none."""
    chains = [[rule_id]]
    seen = set()
    for chain in chains:
        for source in inputs[chain[-1]]:
            if source == rule_id:
                return chain
            if source not in seen:
                seen.add(source)
                chains.append([*chain, source])
    return []


def _when(rule: Rule) -> WhenSpec:
    assert rule.spec.when is not None
    return rule.spec.when
