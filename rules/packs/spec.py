"""The shape of a rule pack, as people write it in YAML; pydantic checks it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from epicenter.rules.documents.strict import DurationNs, Strict
from epicenter.rules.model.signals import CLOCK_SKEW_NS
from epicenter.rules.model.times import NS_PER_S, duration_ns
from epicenter.rules.packs.recorded import Recorded
from epicenter.rules.packs.windows import WhenSpec

Severity = Literal["info", "warning", "error", "critical"]
Role = Literal[
    "root", "cascade", "confirmation", "teardown", "advice", "context", "placement", "progress", "finished", "harmless"
]
Source = Literal["kernel", "worker", "scheduler", "kubernetes", "any"]
Entity = Literal["gpu", "node", "link", "job", "rank", "process", "storage", "fabric"]
Scope = Literal["gpu", "node", "job", "cluster", "switch", "rack", "rail", "storage", "artefact", "input"]

_ESCAPED_OR_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
_OPEN_END = re.compile(r"(?:[*+]\??|\{\d+,\}\??|\?)\)*$")
_STAND_IN = "_"


def check_pattern(pattern: str) -> str:
    """The pattern itself, when it can be searched in whole batches with Hyperscan.

    Raises:
        ValueError: says what stands in the way and what to write instead.
    """
    bare = _ESCAPED_OR_CLASS.sub(_STAND_IN, pattern).removeprefix("^").removesuffix("$")
    if "^" in bare or "$" in bare or re.search(r"\\[AZz]", pattern):
        raise ValueError(
            f"{pattern!r}: an anchor may only be a ^ at the very beginning or a $ at the very end; leave the others out"
        )
    if re.search(r"\{,\d*\}", bare):
        raise ValueError(f"{pattern!r}: Hyperscan reads {{,n}} as plain text; write {{0,n}}")
    if _OPEN_END.search(bare):
        raise ValueError(
            f"{pattern!r}: ends in a repeat or an option, which fires at every byte; end the pattern at something "
            "fixed, and take fields that run on with `extract`"
        )
    return pattern


def check_extract(pattern: str) -> str:
    """The pattern itself, when it can be searched in a long line in time that grows with its length alone.

    Raises:
        ValueError: says what to write instead.
    """
    if re.match(r"\.[*+]", pattern):
        raise ValueError(f"{pattern!r}: begins with a repeat, which is tried again from every byte; begin it with ^")
    return pattern


def is_named(failure_class: str, names: tuple[str, ...]) -> bool:
    """Whether the class is one of the names; `xid-*` names every class that begins with `xid-`, `!xid-43` none."""
    if f"!{failure_class}" in names:
        return False
    return any(failure_class == name or (name.endswith("*") and failure_class.startswith(name[:-1])) for name in names)


def lag_ns(text: str) -> int:
    """Nanoseconds of a duration that may be negative: `15s`, `-2s`.

    Raises:
        ValueError: the text is no such duration, or goes back further than clocks may differ.
    """
    found_ns = -duration_ns(text[1:]) if text.startswith("-") else duration_ns(text)
    if found_ns < -CLOCK_SKEW_NS:
        allowed = CLOCK_SKEW_NS // NS_PER_S
        raise ValueError(f"{text!r}: an effect comes after its cause; clocks differ by -{allowed}s at most")
    return found_ns


class Waited(Strict):
    """How long the line says it had been waiting: a named field in some unit, or a constant."""

    field: str = ""
    unit: Literal["ms", "s", "m"] = "s"
    constant: DurationNs = 0

    @model_validator(mode="after")
    def _one_of_both(self) -> Waited:
        if bool(self.field) == bool(self.constant):
            raise ValueError("give either `field` (a named group, with its `unit`) or `constant` (such as 900s)")
        return self


class Block(Strict):
    """Lines after the first one that belong to it: from the same source, node and rank, and at most so many.

    Either up to and with the line that fits `ends`; or as long as lines fit `goes_on`, and with `and_one_more` the
    first line that does not (a Python traceback ends with its exception).
    """

    ends: str = ""
    goes_on: str = ""
    and_one_more: bool = False
    most_lines: Annotated[int, Field(ge=1, le=2000)] = 200

    @model_validator(mode="after")
    def _one_of_both(self) -> Block:
        if bool(self.ends) == bool(self.goes_on):
            raise ValueError("give either `ends` or `goes_on`, each an expression")
        return self


class Examples(Strict):
    """Lines in the format of the source that prints them: those that fit, and near misses that must not."""

    matches: Annotated[tuple[str, ...], Field(min_length=2)]
    near_misses: Annotated[tuple[str, ...], Field(min_length=1)]


class RuleSpec(Strict):
    """One rule. `patterns` select a line; `extract` only fills in named fields of a line already selected.

    `class` may hold a field of the patterns (`xid-{code}`). `table` names a TSV file beside the pack: each of its rows
    makes a finer rule for the lines whose field, called like the first column, holds the row's first cell. A `fallback`
    rule stays silent where another rule finds a failure in the same line or block. A rule with `when` has no patterns:
    it watches what other rules find (`rules.detect`). `override` replaces the rule that
    has this id so far. `decode` names a function of `packs/decode.py` that adds fields. `overlaps` names rules of other
    classes that rightly fit some of the same lines. Lines with a `phase` say that the job does something that takes
    longer than a step. A rule that detects `silence` names the `verdict` it speaks for; `no-progress` means hung.
    `recorded_as` has the store keep more of its lines than the match, whatever its role.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")]
    title: str
    failure_class: Annotated[str, Field(alias="class", pattern=r"^[a-z0-9-]+(\{[a-z_]+\})?$")]
    source: Source
    patterns: tuple[Annotated[str, AfterValidator(check_pattern)], ...] = ()
    detect: Literal["line", "no-progress", "silent-end", "loss-jump", "silence"] = "line"
    verdict: Literal["", "straggler", "rank-dead", "node-dead", "never-started", "cut-off"] = ""
    phase: Literal["", "checkpoint", "evaluation", "compile", "startup", "cut"] = ""
    when: WhenSpec | None = None
    extract: tuple[Annotated[str, AfterValidator(check_extract)], ...] = ()
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
    recorded_as: Recorded | None = None
    meaning: str
    next_steps: tuple[str, ...] = ()
    action: str = "none"
    references: tuple[str, ...] = ()
    examples: Examples | None = None

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
    def _windows_have_no_lines_of_their_own(self) -> RuleSpec:
        of_lines = ("patterns", "detect", "extract", "waited", "block", "table", "decode", "fallback", "examples")
        if self.when and (written := [name for name in of_lines if name in self.model_fields_set]):
            raise ValueError(f"a rule with `when` watches other rules: leave out {', '.join(written)}")
        if self.when and "{" in self.failure_class:
            raise ValueError("a rule with `when` has one class: write it without a field")
        return self

    @model_validator(mode="after")
    def _only_harmless_rules_wait_for_a_failure(self) -> RuleSpec:
        if self.beside_failures and self.role != "harmless":
            raise ValueError("`beside_failures` is for rules with `role: harmless`: leave it out")
        return self


class TableRow(BaseModel):
    """What a row of a rule's table says in place of the rule; an empty cell says nothing."""

    model_config = ConfigDict(frozen=True)

    title: str | None = None
    severity: Severity | None = None
    role: Role | None = None
    entity: Entity | None = None
    meaning: str | None = None
    action: str | None = None
    next_steps: tuple[str, ...] | None = None


class EdgeSpec(Strict):
    """Classes that bring others about, where, and how long after.

    A trailing `*` in a class stands for any ending, and a leading `!` takes a class out again. The effect begins no
    sooner than `after` and no later than `within` after its cause, from onset to onset; what clocks may differ comes
    on top, unless `after` is negative: then it says so itself.
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
            raise ValueError("`within` (the longest lag) has to be longer than `after` (the shortest)")
        return self

    def earliest_ns(self, skew_ns: int) -> int:
        """The shortest lag that may be measured, by clocks that differ by so much."""
        return self.after - skew_ns if self.after >= 0 else min(self.after, -skew_ns)


class PackSpec(Strict):
    """One file of rules and causal edges.

    `off` switches rules of earlier packs off, by id. `groups` name lists of classes, for the edges of the same file.
    """

    pack: str
    off: tuple[str, ...] = ()
    rules: tuple[RuleSpec, ...] = ()
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    edges: tuple[EdgeSpec, ...] = ()

    def expanded_edges(self) -> tuple[EdgeSpec, ...]:
        """The edges with the classes of groups in place of their names; no class brings itself about."""
        return tuple(self._expanded(edge) for edge in self.edges)

    def _expanded(self, edge: EdgeSpec) -> EdgeSpec:
        cause = self._classes(edge.cause)
        effect = tuple(name for name in self._classes(edge.effect) if not is_named(name, cause))
        return edge.model_copy(update={"cause": cause, "effect": effect})

    def _classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names for name in self.groups.get(name, (name,)))
