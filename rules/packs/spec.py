"""The shape of a rule pack, as people write it in YAML; pydantic checks it."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from epicenter.rules.documents.strict import DurationNs, Strict
from epicenter.rules.model.signals import CLOCK_SKEW_NS
from epicenter.rules.model.times import NS_PER_S, duration_ns
from epicenter.rules.packs.recorded import Recorded
from epicenter.rules.packs.weights import CauseModelSpec
from epicenter.rules.packs.windows import WhenSpec

Severity = Literal["info", "warning", "error", "critical"]
Role = Literal[
    "root", "cascade", "confirmation", "teardown", "advice", "context", "placement", "progress", "finished", "harmless"
]
Source = Literal["kernel", "worker", "scheduler", "kubernetes", "any"]
Entity = Literal["gpu", "node", "link", "job", "rank", "process", "storage", "fabric"]
Scope = Literal["gpu", "node", "job", "cluster", "switch", "rack", "rail", "storage", "artefact", "input"]
Phase = Literal[
    "",
    "checkpoint",
    "evaluation",
    "compile",
    "profile",
    "serving",
    "startup",
    "cut",
    "exit",
    "run-exit",
    "after-checkpoint",
    "after-evaluation",
    "after-compile",
]
CheckName = Literal["awaited-rank", "kernel-log", "kernel-before", "other-nodes", "silent-ranks", "outlier"]
"""Checks that epicenter makes itself (`rules/report/checks.py`)."""

_ESCAPED_OR_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
_OPEN_END = re.compile(r"(?:[*+]\??|\{\d+,\}\??|\?)\)*$")
_PLACEHOLDER = "_"


def check_pattern(pattern: str) -> str:
    """The pattern itself, if Hyperscan can search whole batches for it.

    Raises:
        ValueError: names the part that prevents it, and what to write instead.
    """
    bare = _ESCAPED_OR_CLASS.sub(_PLACEHOLDER, pattern).removeprefix("^").removesuffix("$")
    if "^" in bare or "$" in bare or re.search(r"\\[AZz]", pattern):
        raise ValueError(f"{pattern!r}: anchors are allowed only as ^ at the start and $ at the end: remove the others")
    if re.search(r"\{,\d*\}", bare):
        raise ValueError(f"{pattern!r}: Hyperscan reads {{,n}} as plain text: write {{0,n}}")
    if _OPEN_END.search(bare):
        raise ValueError(
            f"{pattern!r}: ends in a repeat or an option, which matches at every byte: end the pattern "
            "in fixed text, and capture the rest with `extract`"
        )
    return pattern


def check_extract(pattern: str) -> str:
    """The pattern itself, if its search time grows only linearly with the length of a line.

    Raises:
        ValueError: the message has what to write instead.
    """
    if re.match(r"\.[*+]", pattern):
        raise ValueError(f"{pattern!r}: starts with a repeat, which is slow on long lines: start it with ^")
    return pattern


def is_named(failure_class: str, names: tuple[str, ...]) -> bool:
    """Whether the class is one of the names; `xid-*` matches any ending, `!xid-43` excludes a class."""
    if f"!{failure_class}" in names:
        return False
    return any(failure_class == name or (name.endswith("*") and failure_class.startswith(name[:-1])) for name in names)


def lag_ns(text: str) -> int:
    """Nanoseconds of a duration that may be negative: `15s`, `-2s`.

    Raises:
        ValueError: the text is not a duration, or it is below the negative clock skew.
    """
    found_ns = -duration_ns(text[1:]) if text.startswith("-") else duration_ns(text)
    if found_ns < -CLOCK_SKEW_NS:
        allowed = CLOCK_SKEW_NS // NS_PER_S
        raise ValueError(f"{text!r}: an effect follows its cause: clock skew allows no less than -{allowed}s")
    return found_ns


class Waited(Strict):
    """How long the failure lasted before the line: a named field in a unit, or a constant.

    A field named `waited_s`, `waited_ms` and so on needs no `waited`. A unit in the field's text outranks `unit`.
    """

    field: str = ""
    unit: Literal["ns", "us", "ms", "s", "m", "h", "jiffies"] = "s"
    constant: DurationNs = 0

    @model_validator(mode="after")
    def _has_either(self) -> Waited:
        if bool(self.field) == bool(self.constant):
            raise ValueError("write either `field` (a named group, with its `unit`) or `constant` (such as 900s)")
        return self


class Block(Strict):
    """Lines that follow the first one and belong to it: same source, node and rank, at most `most_lines`.

    The block ends with the line that matches `ends`, or lasts as long as lines match `goes_on`. With `and_one_more` it
    includes the first line that does not match (a Python traceback ends with its exception). With `only_if_next` there
    is no block unless the second line matches it.

    `extract` finds fields in all of its lines together; every failure inside has them. With `covers`, failures inside
    are not reported.
    """

    ends: str = ""
    goes_on: str = ""
    and_one_more: bool = False
    only_if_next: str = ""
    extract: tuple[Annotated[str, AfterValidator(check_extract)], ...] = ()
    covers: bool = False
    most_lines: Annotated[int, Field(ge=1, le=2000)] = 200

    @property
    def expressions(self) -> tuple[str, ...]:
        """All that it has."""
        return tuple(filter(None, (self.ends, self.goes_on, self.only_if_next, *self.extract)))

    @model_validator(mode="after")
    def _has_either(self) -> Block:
        if bool(self.ends) == bool(self.goes_on):
            raise ValueError("write either `ends` or `goes_on`, each an expression")
        return self


class Examples(Strict):
    """Lines in the format of their source: some that must match, and near misses that must not."""

    matches: Annotated[tuple[str, ...], Field(min_length=2)]
    near_misses: Annotated[tuple[str, ...], Field(min_length=1)]


class Searched(IntEnum):
    """Where the patterns of a rule are searched for."""

    ALWAYS = 0
    IN_TRIAGE = 1
    BESIDE_FAILURES = 2


class RuleSpec(Strict):
    """One rule. `patterns` select a line; `extract` only fills in named fields of a line already selected.

    `class` may contain a field of the patterns (`xid-{code}`). `table` names a TSV file next to the pack. Each of its
    rows makes a finer rule, for lines in which the field named by the first column has the row's first cell, or which
    contain it if that column is `text`, or whose template has its `words`. A line that matches one of `unless` is not
    the rule's. A `fallback` rule applies only where no other rule finds a failure in the same line or block. A rule
    with `when` has no patterns: it watches what other rules find (`rules.detect`). `override` replaces the earlier rule
    of this id. `decode` names a function of `packs/decode.py` that adds fields. `overlaps` names rules of other classes
    that may match the same lines. A `phase` is work of the job that takes longer than a step; `after-…` ends it. A rule
    that detects `silence` names its `verdict`; `no-progress` means hung. `recorded_as` is what else the store records
    of its lines. `clears` names the classes whose failures on the node are over; its own, if the line reports one that
    was over by then. `compared` are fields that all nodes of a job should print alike, with what they are. `headline`
    is the title of one failure: a text with fields in braces; `[a part]` with an unknown field is left out. `checks`
    numbers the steps that epicenter makes itself; a step that it has made is not among those left. `only_in_triage`:
    workers do not search for it, since only the triage of a log reads its matches.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")]
    title: str
    headline: str = ""
    failure_class: Annotated[str, Field(alias="class", pattern=r"^[a-z0-9-]+(\{[a-z_]+\})?$")]
    source: Source
    patterns: tuple[Annotated[str, AfterValidator(check_pattern)], ...] = ()
    detect: Literal["line", "no-progress", "silent-end", "loss-jump", "silence"] = "line"
    verdict: Literal["", "straggler", "rank-dead", "node-dead", "never-started", "cut-off", "rebooted"] = ""
    phase: Phase = ""
    when: WhenSpec | None = None
    extract: tuple[Annotated[str, AfterValidator(check_extract)], ...] = ()
    unless: tuple[Annotated[str, AfterValidator(check_extract)], ...] = ()
    severity: Severity
    role: Role
    entity: Entity
    waited: Waited | None = None
    block: Block | None = None
    table: str = ""
    decode: str = ""
    fallback: bool = False
    override: bool = False
    overlaps: tuple[str, ...] = ()
    clears: tuple[str, ...] = ()
    beside_failures: bool = False
    only_in_triage: bool = False
    recorded_as: Recorded | None = None
    compared: dict[str, str] = Field(default_factory=dict)
    meaning: str
    next_steps: tuple[str, ...] = ()
    checks: dict[CheckName, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    action: str = "none"
    references: tuple[str, ...] = ()
    examples: Examples | None = None

    @property
    def searched(self) -> Searched:
        """Where its patterns are searched for."""
        if self.beside_failures:
            return Searched.BESIDE_FAILURES
        return Searched.IN_TRIAGE if self.only_in_triage else Searched.ALWAYS

    @property
    def knows_only_structure(self) -> bool:
        """Whether its lines are those that no rule names: what any other rule makes of one is better."""
        return self.decode == "template"

    @model_validator(mode="after")
    def _line_rules_have_patterns_and_examples(self) -> RuleSpec:
        if self.when:
            return self
        if self.detect == "line" and not self.patterns:
            raise ValueError("`patterns` is missing: write at least one")
        if self.detect == "line" and self.examples is None:
            raise ValueError("`examples` is missing: write at least two `matches` and one of `near_misses`")
        return self

    @model_validator(mode="after")
    def _checks_number_steps(self) -> RuleSpec:
        for name, number in self.checks.items():
            if number > len(self.next_steps):
                raise ValueError(f"checks: {name}: there is no step {number}: number `next_steps` from 1")
        return self

    @model_validator(mode="after")
    def _windows_have_no_lines_of_their_own(self) -> RuleSpec:
        of_lines = (
            "patterns",
            "detect",
            "extract",
            "unless",
            "waited",
            "block",
            "table",
            "decode",
            "fallback",
            "examples",
        )
        if self.when and (written := [name for name in of_lines if name in self.model_fields_set]):
            raise ValueError(f"a rule with `when` watches other rules, not lines: remove {', '.join(written)}")
        if self.when and "{" in self.failure_class:
            raise ValueError("a rule with `when` has one class: write it without a field")
        return self

    @model_validator(mode="after")
    def _only_harmless_rules_wait_for_a_failure(self) -> RuleSpec:
        if self.beside_failures and self.role != "harmless":
            raise ValueError("`beside_failures` is for rules with `role: harmless`: remove it")
        return self

    @model_validator(mode="after")
    def _workers_need_rules_of_other_roles(self) -> RuleSpec:
        if self.only_in_triage and (self.role != "context" or self.clears or self.recorded_as or self.compared):
            raise ValueError(
                "`only_in_triage` is for rules with `role: context`, without `clears`, `recorded_as` and `compared`: "
                "remove it"
            )
        return self


class TableRow(BaseModel):
    """The values with which a table row replaces those of its rule; an empty cell replaces nothing."""

    model_config = ConfigDict(frozen=True)

    failure_class: Annotated[str | None, Field(alias="class", pattern=r"^[a-z0-9-]+$")] = None
    title: str | None = None
    headline: str | None = None
    severity: Severity | None = None
    role: Role | None = None
    entity: Entity | None = None
    meaning: str | None = None
    action: str | None = None
    next_steps: tuple[str, ...] | None = None
    clears: tuple[str, ...] | None = None


class EdgeSpec(Strict):
    """Which classes cause which, over which scope, and how long after.

    A trailing `*` in a class matches any ending; a leading `!` excludes a class. From onset to onset, the effect begins
    between `after` and `within` after its cause. Clock skew is allowed in addition, unless a negative `after` includes
    it.
    """

    cause: Annotated[tuple[str, ...], Field(min_length=1)]
    effect: Annotated[tuple[str, ...], Field(min_length=1)]
    scope: Scope
    after: Annotated[int, BeforeValidator(lambda text: lag_ns(str(text)), json_schema_input_type=str)] = 0
    within: DurationNs
    reason: str

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> EdgeSpec:
        if self.within <= max(self.after, 0):
            raise ValueError("`within` (the longest lag) must be longer than `after` (the shortest)")
        return self

    def earliest_ns(self, skew_ns: int) -> int:
        """The shortest lag that may be measured when clocks differ by `skew_ns`."""
        return self.after - skew_ns if self.after >= 0 else min(self.after, -skew_ns)


class PackSpec(Strict):
    """One file of rules and causal edges.

    `off` switches off rules of earlier packs, by id. `advice` adds next steps of your site, by class. `groups` names
    lists of classes for the edges of this file. `cause_model` replaces weights of the ranking.
    """

    pack: str
    off: tuple[str, ...] = ()
    advice: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    rules: tuple[RuleSpec, ...] = ()
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    edges: tuple[EdgeSpec, ...] = ()
    cause_model: CauseModelSpec = CauseModelSpec()

    def expanded_edges(self) -> tuple[EdgeSpec, ...]:
        """The edges with the classes of groups in place of their names; no class causes itself."""
        return tuple(self._expanded(edge) for edge in self.edges)

    def _expanded(self, edge: EdgeSpec) -> EdgeSpec:
        cause = self._classes(edge.cause)
        effect = tuple(name for name in self._classes(edge.effect) if not is_named(name, cause))
        return edge.model_copy(update={"cause": cause, "effect": effect})

    def _classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names for name in self.groups.get(name, (name,)))
