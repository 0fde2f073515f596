"""Rules ready to use: compiled for `re`, in a fixed order, with their causal edges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from epicenter.rules.match.bounded import FIELD, LINE, Bounds, compiled, searched
from epicenter.rules.model.records import Match
from epicenter.rules.model.signals import TEMPLATE_FIELD
from epicenter.rules.packs.cause_model import NO_CAUSE_MODEL, CauseModel
from epicenter.rules.packs.decode import DECODERS
from epicenter.rules.packs.edges import EdgeIndex
from epicenter.rules.packs.spec import EdgeSpec, RuleSpec, Searched
from epicenter.rules.packs.texts import TextIndex, pieces_of_text
from epicenter.rules.packs.topology import NO_TOPOLOGY, Topology
from epicenter.rules.packs.waits import UNITS, stated_wait_ns
from epicenter.rules.unnamed.words import WordsIndex

NEAR_BYTES: Final = 4096
"""Fields are looked for at most this far from the match. Without a bound, one long line could take minutes."""

TEXT_COLUMN: Final = "text"
"""The first column of a table whose rows are selected by fixed text, not by a code."""

WORDS_COLUMN: Final = "words"
"""The first column of a table whose rows are regular expressions for words anywhere in a template, in any case."""

COMPUTE_FIELDS: Final = ("compute_s", "compute_ms")
"""The time of a step that a rank computes, without its waits for others."""

STEP_TIME_FIELD: Final = "step_s"
WAIT_FIELD: Final = "wait_s"
"""Of a step's time, what a rank waits for others: the rest is the time that it computes."""

HEARTBEAT_FIELDS: Final = frozenset(
    {"step", "rank", "world_size", "node_count", "step_saved", *COMPUTE_FIELDS, WAIT_FIELD}
)


_WAITED_PREFIX: Final = "waited_"
_WAITED_FIELDS: Final = frozenset(_WAITED_PREFIX + unit for unit in (*UNITS, "jiffies"))
STEP_FIELDS: Final = {"step", "steps_total", "total_steps", "step_saved", "step_restored"}
"""Whole numbers that some frameworks write as 3.2e+4."""


@dataclass(frozen=True, eq=False)
class Rule:
    """One rule. Patterns are compiled over bytes, so that `re` and Hyperscan mean the same by `\\w` and `.`.

    `finer` holds the rules of its table, by the content of the field `key_field`, or by a digest of each row's text.
    `row` is this rule's own row of such a table, with the vendor's words.
    """

    spec: RuleSpec
    place: str = ""
    key_field: str = ""
    finer: Mapping[str, Rule] = field(default_factory=dict)
    row: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def patterns(self) -> tuple[re.Pattern[bytes], ...]:
        """Compiled patterns; a match of any selects the line."""
        return _compiled(self.spec.patterns)

    @cached_property
    def extract(self) -> tuple[re.Pattern[bytes], ...]:
        """Compiled patterns that find more fields in a selected line."""
        return _compiled(self.spec.extract, FIELD)

    @cached_property
    def _unless(self) -> tuple[re.Pattern[bytes], ...]:
        return _compiled(self.spec.unless)

    def disclaims(self, line: bytes) -> bool:
        """Whether the line matches one of `unless`, so that it is not the rule's."""
        return bool(self._unless) and any(pattern.search(line) for pattern in self._unless)

    @cached_property
    def extract_of_block(self) -> tuple[re.Pattern[bytes], ...]:
        """Compiled patterns that find fields in the lines of a block that a line of this rule opens."""
        return _compiled(self.spec.block.extract) if self.spec.block else ()

    def is_named(self, rule_id: str) -> bool:
        """Whether it is the id of this rule or of a rule of its table."""
        return rule_id == self.spec.id or (bool(self.finer) and rule_id.startswith(f"{self.spec.id}_"))

    def applies_to(self, source: str) -> bool:
        """Whether the rule applies to lines of this source; it applies to lines of unknown source."""
        return source in ("", self.spec.source) or self.spec.source == "any"

    @cached_property
    def extract_for_heartbeats(self) -> tuple[re.Pattern[bytes], ...]:
        """Those of `extract` that heartbeats need."""
        return (
            self.extract
            if self.spec.decode
            else tuple(pattern for pattern in self.extract if HEARTBEAT_FIELDS & pattern.groupindex.keys())
        )

    def fields_in(self, found: re.Match[bytes], for_heartbeats: bool = False) -> dict[str, str]:
        """The fields of a matching line: named groups, `extract`, decoder. `for_heartbeats`: only those they need."""
        fields = _named_groups(found)
        near = max(0, found.start() - NEAR_BYTES), found.end() + NEAR_BYTES
        for pattern in self.extract_for_heartbeats if for_heartbeats else self.extract:
            if more := pattern.search(found.string, *near):
                fields |= _named_groups(more)
        return DECODERS[self.spec.decode](fields) if self.spec.decode else fields

    def fields_of_block(self, text: str) -> dict[str, str]:
        """The fields in the lines of a block that a line of this rule opens."""
        body = searched(text.encode("utf-8", "surrogatepass"))
        found = (pattern.search(body) for pattern in self.extract_of_block)
        return {name: value for match in found if match for name, value in _named_groups(match).items()}

    def for_line(self, found: re.Match[bytes], fields: Mapping[str, str]) -> Rule | None:
        """The rule that a matching line counts for: of the table row that its code or its text selects.

        Without a row for its code or its words it is this rule, without a row for its text none.
        """
        if self.key_field == WORDS_COLUMN:
            return self._words.rule_in(fields.get(TEMPLATE_FIELD, "")) or self
        if self.key_field == TEXT_COLUMN:
            body = found.string[found.start() : found.end() + NEAR_BYTES]
            return self._texts.rule_in(body)
        return self.finer.get(_code(fields.get(self.key_field, "")), self) if self.finer else self

    @cached_property
    def _words(self) -> WordsIndex[Rule]:
        """The rules of a table of words."""
        return WordsIndex((rule.row[WORDS_COLUMN], rule) for rule in self.finer.values())

    @cached_property
    def _texts(self) -> TextIndex[Rule]:
        """The rules of a table of texts."""
        return TextIndex((pieces_of_text(rule.row[TEXT_COLUMN]), rule) for rule in self.finer.values())

    def class_of(self, fields: Mapping[str, str]) -> str:
        """The failure class, with its field filled in."""
        name = self.spec.failure_class
        return name.format_map({key: _code(value) for key, value in fields.items()}) if "{" in name else name

    def switched_off(self) -> Rule:
        """The rule switched off: it still matches its lines, but makes no signal."""
        return replace(self, spec=self.spec.model_copy(update={"role": "context", "severity": "info"}))

    def waited_ns(self, fields: dict[str, str]) -> int:
        """How long before the line the failure began, according to the line; 0 if the line lacks it.

        A field such as `waited_ms` says so for every rule, in the unit that its name ends in.
        """
        waited = self.spec.waited
        if waited and waited.field in fields:
            return stated_wait_ns(fields[waited.field], waited.unit)
        if not _WAITED_FIELDS.isdisjoint(fields):
            stated = next(name for name in fields if name in _WAITED_FIELDS)
            return stated_wait_ns(fields[stated], stated.removeprefix(_WAITED_PREFIX))
        return waited.constant if waited else 0


def _compiled(patterns: Iterable[str], bounds: Bounds = LINE) -> tuple[re.Pattern[bytes], ...]:
    return tuple(compiled(pattern.encode(), bounds) for pattern in patterns)


_SCIENTIFIC: Final = re.compile(rb"\d+(?:\.\d+)?[eE]\+?\d{1,2}(?![\w.])")


def _named_groups(found: re.Match[bytes]) -> dict[str, str]:
    groups = {name: value.decode("utf-8", "replace") for name, value in found.groupdict().items() if value is not None}
    for name in groups.keys() & STEP_FIELDS:
        if number := _SCIENTIFIC.match(found.string, found.start(name)):
            groups[name] = str(round(float(number[0])))
    return groups


def _code(text: str) -> str:
    """A number without leading zeros: drivers print the same code in several widths."""
    return text.lstrip("0") or text


@dataclass(frozen=True)
class RuleSet:
    """All rules, by id and by number of pattern: pattern `n` belongs to `rule_of_pattern[n]`.

    Rules of tables are found `by_id` only: the rule with the table selects their lines. Patterns of `only_in_triage`
    rules come after `expressions`, those of `beside_failures` rules last. `digest` is that of the `files`. `marks` are
    patterns of no rule, searched for together with `expressions`. `advice` are a site's next steps, by class.
    `cause_model` weighs causes. `named` remembers what `rules_named` found.
    """

    rules: tuple[Rule, ...]
    edges: tuple[EdgeSpec, ...]
    topology: Topology = NO_TOPOLOGY
    files: tuple[str, ...] = ()
    digest: str = ""
    marks: tuple[str, ...] = ()
    advice: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cause_model: CauseModel = NO_CAUSE_MODEL
    by_id: dict[str, Rule] = field(init=False)
    named: dict[str, list[Rule]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {rule.spec.id: rule for rule in self.all_rules})

    @cached_property
    def all_rules(self) -> tuple[Rule, ...]:
        """The rules, each followed by those of its table."""
        return tuple(rule for owner in self.rules for rule in (owner, *owner.finer.values()))

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        """The patterns that all lines are searched for, as written."""
        return self._expressions(Searched.ALWAYS)

    @cached_property
    def expressions_in_triage(self) -> tuple[str, ...]:
        """The patterns that only a triage searches lines for, as written; numbered after `expressions`."""
        return self._expressions(Searched.IN_TRIAGE)

    @cached_property
    def expressions_beside(self) -> tuple[str, ...]:
        """The patterns that only lines with a failure are searched for, as written; numbered after all others."""
        return self._expressions(Searched.BESIDE_FAILURES)

    def pattern(self, number: int) -> re.Pattern[bytes]:
        """A pattern by its number, compiled at first use."""
        rule, index = self._places[number]
        return rule.patterns[index]

    @cached_property
    def rule_of_pattern(self) -> tuple[Rule, ...]:
        """The rule that each of the patterns belongs to."""
        return tuple(rule for rule, _ in self._places)

    @cached_property
    def _places(self) -> tuple[tuple[Rule, int], ...]:
        ordered = sorted(self.rules, key=lambda rule: rule.spec.searched)
        return tuple((rule, index) for rule in ordered for index in range(len(rule.spec.patterns)))

    def _expressions(self, searched: Searched) -> tuple[str, ...]:
        return tuple(rule.spec.patterns[index] for rule, index in self._places if rule.spec.searched is searched)

    @cached_property
    def edge_index(self) -> EdgeIndex:
        """The edges by the classes that they connect."""
        return EdgeIndex(self.edges)

    def edges_between(self, cause: str, effect: str) -> tuple[EdgeSpec, ...]:
        """The causal edges from one class to another; there is none from a class to itself."""
        return self.edge_index.between(cause, effect)

    def of(self, match: Match) -> Rule:
        """The rule that made this match."""
        return self.by_id[match.rule]

    def spec_of(self, match: Match) -> RuleSpec:
        """The rule of this match with its class filled in."""
        rule = self.of(match)
        return rule.spec.model_copy(update={"failure_class": rule.class_of(match.fields)})
