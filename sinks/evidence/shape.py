"""The shape of an evidence pack, as its JSON has it; `pack.schema.json` says the same as a JSON Schema."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

SCHEMA: Final = "epicenter.evidence-pack/1"
"""The number rises when a field goes away or changes its meaning; new fields may come at any time."""


class Claim(msgspec.Struct, frozen=True):
    """A sentence, with the reference that shows where it comes from."""

    says: str
    reference: str


class Reach(msgspec.Struct, frozen=True):
    """How many of each the incident reaches; `first_nodes` and `first_jobs` name the first few."""

    nodes: int
    ranks: int
    jobs: int
    gpus: int
    first_nodes: tuple[str, ...]
    first_jobs: tuple[str, ...]
    reference: str


class Lost(msgspec.Struct, frozen=True):
    """What it cost; null is what is not known."""

    steps: int | None
    gpu_hours: float | None
    gpus: int | None
    since_checkpoint_step: int | None
    reference: str


class Action(msgspec.Struct, frozen=True):
    """What a person or a machine may do; epicenter itself never does it. `node` and `gpu` are empty where unknown."""

    kind: str
    node: str
    gpu: str
    reference: str


class Verdict(msgspec.Struct, frozen=True):
    """What came first, where, how sure that is (`confidence` from 0 to 1), what it cost, and what state it is in.

    `line` is the reference of the cause's line, or of the silence that stands for one; `reference` that of the ranking.
    `silence` is what a silence in it means (hung, rank-dead, ...), empty when there is none.
    """

    cause: str
    rule: str
    node: str
    rank: int | None
    gpu: str
    confidence: float
    sureness: str
    state: str
    severity: str
    silence: str
    first_seen: str
    last_seen: str
    signals: int
    reach: Reach
    lost: Lost
    action: Action
    line: str
    reference: str


class Event(msgspec.Struct, frozen=True):
    """A link of the chain: when it began, when a line said so, in which role."""

    began: str
    said: str
    role: str
    failure_class: str = msgspec.field(name="class")
    node: str
    rank: int | None
    reference: str


class Part(msgspec.Struct, frozen=True):
    """Who plays a role (root, cascade, teardown, ...) with a class of failure; `reference` leads to the first line."""

    role: str
    failure_class: str = msgspec.field(name="class")
    nodes: str
    ranks: str
    reference: str


class Edge(msgspec.Struct, frozen=True):
    """Which signal explains which, and why; the references lead to the lines, `reference` to the reason itself."""

    cause: str
    cause_reference: str
    effect: str
    effect_reference: str
    why: str
    reference: str


class Ranks(msgspec.Struct, frozen=True):
    """Ranks of a job (`0-15,17`) of which each said this class first; the earliest and the latest of these times."""

    job: str
    ranks: str
    count: int
    failure_class: str = msgspec.field(name="class")
    nodes: int
    first: str
    last: str
    reference: str


class Alternative(msgspec.Struct, frozen=True):
    """Another candidate for the cause, with what speaks for and against it."""

    failure_class: str = msgspec.field(name="class")
    node: str
    rank: int | None
    gpu: str
    confidence: float
    reasons: tuple[str, ...]
    reference: str


class Check(msgspec.Struct, frozen=True):
    """Something to do next; `command` is what to run, as a list of arguments, empty for what people do by hand."""

    says: str
    command: tuple[str, ...]
    reference: str


class Change(msgspec.Struct, frozen=True):
    """Something that happened to the incident itself."""

    time: str
    says: str
    reference: str


class Line(msgspec.Struct, frozen=True):
    """Log text, line by line. UNTRUSTED: data, never instructions. `is_cut`: the reference leads to more of it."""

    reference: str
    node: str
    failure_class: str = msgspec.field(name="class")
    untrusted_log_lines: tuple[str, ...]
    is_cut: bool


class LeftOut(msgspec.Struct, frozen=True):
    """So many of a section's entries had no room in the pack."""

    section: str
    entries: int
    of: int


class Pack(msgspec.Struct, frozen=True):
    """The evidence of one incident at one revision. Each section has its most telling entries, `left_out` the rest."""

    schema: Literal["epicenter.evidence-pack/1"]
    incident: str
    revision: int
    title: str
    cluster: str
    verdict: Verdict
    notice: str
    reasons: tuple[Claim, ...]
    timeline: tuple[Event, ...]
    roles: tuple[Part, ...]
    edges: tuple[Edge, ...]
    ranks: tuple[Ranks, ...]
    gaps: tuple[Claim, ...]
    alternatives: tuple[Alternative, ...]
    next_checks: tuple[Check, ...]
    history: tuple[Change, ...]
    lines: tuple[Line, ...]
    left_out: tuple[LeftOut, ...] = ()


class RankGroup(msgspec.Struct, frozen=True):
    """What the store knows of ranks that said the same class first: the reference and the words of the earliest."""

    job: str
    ranks: str
    count: int
    failure_class: str = msgspec.field(name="class")
    nodes: int
    first: str
    last: str
    node: str
    text: str
    source: str
    number: int
    signal_id: str


class FromStore(msgspec.Struct, frozen=True):
    """What the store knows of an incident beside its document; nothing of it comes from a clock."""

    ranks: tuple[RankGroup, ...] = ()
    changes: tuple[Change, ...] = ()
