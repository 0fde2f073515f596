"""Rules ready to use: compiled for `re`, in a fixed order, with their causal edges."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from rules.model import Match
from rules.spec import EdgeSpec, RuleSpec
from rules.times import UNIT_NS


def is_named(failure_class: str, names: tuple[str, ...]) -> bool:
    """Whether the class is one of the names; `xid-*` names every class that begins with `xid-`."""
    return any(failure_class == name or (name.endswith("*") and failure_class.startswith(name[:-1])) for name in names)


@dataclass(frozen=True)
class Rule:
    """One rule with its patterns compiled over bytes, so that `re` and Hyperscan mean the same by `\\w` and `.`."""

    spec: RuleSpec
    patterns: tuple[re.Pattern[bytes], ...]
    extract: tuple[re.Pattern[bytes], ...]

    @classmethod
    def compile(cls, spec: RuleSpec) -> Rule:
        """Raises `re.error` when a pattern is wrong."""
        return cls(spec, tuple(map(_compile, spec.patterns)), tuple(map(_compile, spec.extract)))

    def applies_to(self, source: str) -> bool:
        """Whether lines of this source are looked at; a line of unknown source is."""
        return source in ("", self.spec.source) or self.spec.source == "any"

    def fields_in(self, found: re.Match[bytes]) -> dict[str, str]:
        """The named fields of a line that fits, those of `extract` included."""
        fields = found.groupdict()
        for pattern in self.extract:
            if more := pattern.search(found.string):
                fields |= {name: value for name, value in more.groupdict().items() if value is not None}
        return {name: value.decode("utf-8", "replace") for name, value in fields.items() if value is not None}

    def waited_ns(self, fields: dict[str, str]) -> int:
        """How long before the line its trouble began, by its own words."""
        waited = self.spec.waited
        if waited is None:
            return 0
        if waited.constant:
            return waited.constant
        told = fields.get(waited.field, "")
        return int(told) * UNIT_NS[waited.unit] if told.isascii() and told.isdigit() and len(told) < 10 else 0


def _compile(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode())


@dataclass(frozen=True)
class RuleSet:
    """All rules, by id and by number of pattern: pattern `n` belongs to `rule_of_pattern[n]`."""

    rules: tuple[Rule, ...]
    edges: tuple[EdgeSpec, ...]
    by_id: dict[str, Rule] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {rule.spec.id: rule for rule in self.rules})

    @cached_property
    def patterns(self) -> tuple[re.Pattern[bytes], ...]:
        """Every pattern, in the order of the rules."""
        return tuple(pattern for rule in self.rules for pattern in rule.patterns)

    @cached_property
    def rule_of_pattern(self) -> tuple[Rule, ...]:
        """The rule that each of `patterns` belongs to."""
        return tuple(rule for rule in self.rules for _ in rule.patterns)

    def of(self, match: Match) -> Rule:
        """The rule that made this match."""
        return self.by_id[match.rule]
