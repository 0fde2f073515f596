"""The schema of a scenario file in YAML, checked by pydantic."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from epicenter.rules.documents.mistakes import instead
from epicenter.rules.documents.strict import Strict
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.spec import Severity
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.stream.scenarios.notation import length_ns, names_of, offset_ns, ranks_of

Source = Literal["kernel", "worker", "scheduler", "kubernetes"]
Shipper = Literal["vector", "fluent-bit", "journald", "rsyslog", "file", "plain"]
SHIPPERS_OF: Final[dict[str, tuple[Shipper, ...]]] = {
    "kernel": ("journald", "rsyslog", "plain"),
    "worker": ("vector", "fluent-bit", "file", "plain"),
    "scheduler": ("file", "rsyslog", "plain"),
    "kubernetes": ("vector", "plain"),
}
"""Source -> shippers that can send its lines, the default one first."""

PLACEHOLDERS: Final = ("step", "node", "rank", "local_rank", "world", "pci", "bus", "pid", "iso", "clock", "c10")

_PLACEHOLDER = re.compile(r"\{([a-z_0-9]+)\}")


def _start_ns(written: Any) -> int:
    start = written if isinstance(written, datetime) else datetime.fromisoformat(str(written))
    return int(start.replace(tzinfo=start.tzinfo or UTC).timestamp()) * NS_PER_S


def _known_class(failure_class: str) -> str:
    if not vocabulary().knows(failure_class):
        correction = instead(failure_class, vocabulary().family_by_class, "rules/packs/vocabulary.yaml")
        raise ValueError(f"unknown class {failure_class!r}: {correction}")
    return failure_class


def _known_placeholders(text: str) -> str:
    if unknown := [name for name in _PLACEHOLDER.findall(text) if name not in PLACEHOLDERS]:
        raise ValueError(f"{{{unknown[0]}}}: unknown placeholder: write one of {', '.join(PLACEHOLDERS)}")
    return text


OffsetNs = Annotated[int, BeforeValidator(offset_ns)]
LengthNs = Annotated[int, BeforeValidator(length_ns)]
Names = Annotated[tuple[str, ...], BeforeValidator(names_of)]
Ranks = Annotated[tuple[int, ...] | Literal["all"], BeforeValidator(ranks_of)]
Name = Annotated[str, BeforeValidator(str)]
Class = Annotated[str, AfterValidator(_known_class)]


class JobSpec(Strict):
    """Where a job runs: its ranks fill one node after the other."""

    nodes: Annotated[Names, Field(min_length=1)]
    ranks_per_node: Annotated[int, Field(ge=1, le=256)] = 8
    shipper: Shipper | None = None

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return len(self.nodes) * self.ranks_per_node

    def node_of(self, rank: int) -> str:
        """The node on which this rank runs."""
        return self.nodes[rank // self.ranks_per_node]


class LineSpec(Strict):
    """A line, or many of one kind: at one time or repeated, on some nodes or from some ranks of a job.

    Times count from the scenario's start. All ranks or nodes write at once, or evenly spread over `spread`. A text of
    several lines is several records, a microsecond apart.
    """

    at: OffsetNs | None = None
    every: LengthNs | None = None
    since: Annotated[OffsetNs | None, Field(alias="from")] = None
    upto: Annotated[OffsetNs | None, Field(alias="to")] = None
    spread: LengthNs = 0
    on: Names = ()
    job: Name = ""
    ranks: Ranks = ()
    source: Source = "worker"
    shipper: Shipper | None = None
    step: int = 0
    stride: int = 1
    text: Annotated[str, AfterValidator(_known_placeholders)]

    @model_validator(mode="after")
    def _once_or_repeated(self) -> LineSpec:
        repeated = (self.every, self.since, self.upto)
        if (self.at is None) == (None in repeated) or (self.at is not None and repeated != (None, None, None)):
            raise ValueError("write either `at: +10s`, or all of `every: 5s`, `from: +0s` and `to: +60s`")
        if self.every == 0 or (self.upto or 0) < (self.since or 0):
            raise ValueError("`every` must be longer than 0s, and `to` not before `from`")
        return self

    @model_validator(mode="after")
    def _has_a_writer(self) -> LineSpec:
        if self.ranks != () and not self.job:
            raise ValueError("`ranks` belong to a job: write `job` too")
        if self.shipper and self.shipper not in SHIPPERS_OF[self.source]:
            raise ValueError(f"shipper of a {self.source} line: write one of {', '.join(SHIPPERS_OF[self.source])}")
        return self

    @property
    def offsets_ns(self) -> range | tuple[int]:
        """The times of the line, as offsets from the start."""
        if self.every is None or self.since is None or self.upto is None:
            return (self.at or 0,)
        return range(self.since, self.upto + 1, self.every)


class ExpectedIncident(Strict):
    """The required fields of one incident; omitted ones may have any value.

    `jobs` and `nodes` must be complete; `attempts` counts the job's failed runs including this one, `recurs_on` has the
    nodes implicated each time. `chain` has classes in the order of their first links, and may omit some. `confidence`
    is the minimum.
    """

    failure_class: Annotated[Class | None, Field(alias="class")] = None
    node: str | None = None
    rank: int | None = None
    gpu: str | None = None
    jobs: Names | None = None
    nodes: Names | None = None
    status: Literal["open", "resolved"] | None = None
    severity: Severity | None = None
    verdict: str | None = None
    attempts: int | None = None
    recurs_on: Names | None = None
    chain: tuple[Class, ...] = ()
    confidence: Annotated[float, Field(ge=0, le=1)] = 0

    @model_validator(mode="after")
    def _expects_something(self) -> ExpectedIncident:
        if not self.model_fields_set:
            raise ValueError("is empty: write at least the `class` of the root cause")
        return self


Expected = Annotated[
    tuple[ExpectedIncident, ...], BeforeValidator(lambda written: () if written == "none" else written)
]


class StepSpec(Strict):
    """Lines arrive, then `advance` passes without lines, then there must be exactly the expected incidents."""

    then: str = ""
    lines: tuple[LineSpec, ...] = ()
    advance: LengthNs = 0
    expect: Expected | None = None


class ScenarioSpec(StepSpec):
    """One story. It has one step, written at the top, or several in `steps`.

    `topology` is a topology file, relative to the scenario's.
    """

    title: str
    story: str
    starts: Annotated[int, BeforeValidator(_start_ns)] = 1_772_442_000 * NS_PER_S
    allowed_lateness: LengthNs = 5 * NS_PER_S
    jobs: dict[str, JobSpec] = Field(default_factory=dict)
    nodes: Names = ()
    topology: str = ""
    steps: tuple[StepSpec, ...] = ()

    @model_validator(mode="after")
    def _expects_something(self) -> ScenarioSpec:
        at_top = self.lines or self.advance or self.expect is not None
        if bool(at_top) == bool(self.steps):
            raise ValueError("write either `lines`, `advance` and `expect`, or `steps` that have them")
        if all(step.expect is None for step in self.all_steps):
            raise ValueError("no `expect`: write `expect: none` or a list of incidents")
        if self.allowed_lateness < 2 * NS_PER_S:
            raise ValueError("`allowed_lateness` is too short: write 2s or more")
        return self

    @property
    def all_steps(self) -> tuple[StepSpec, ...]:
        """Its steps, in order."""
        return self.steps or (self,)
