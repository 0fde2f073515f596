"""Incidents beside the truth of a simulated folder: which were right, fault by fault. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from typing import Any, Final

import msgspec

NEEDS_NO_INCIDENT: Final = ("finished", "cancelled", "shipper-silent", "buffered", "pipeline-behind")
"""Verdicts with which it is right to tell nobody."""

NONE: Final = "none"
BEFORE_S: Final = 60.0
"""An incident whose last line stands longer than this before the onset has nothing to do with the fault."""

ASKED: Final = ("top1", "top3", "one", "verdict")


class TrueFault(msgspec.Struct, frozen=True):
    """What really happened. Empty names mean that there is none to name; `onset` is ISO 8601.

    `also_ok` are classes that name the same event. `optional`: one incident that says the same is right as well.
    """

    fault: str
    failure_class: str = msgspec.field(name="class")
    onset: str
    incident: bool
    also_ok: tuple[str, ...] = ()
    node: str | None = ""
    jobs: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    verdict: str = ""
    optional: bool = False

    def has_class(self, failure_class: str) -> bool:
        """Whether the class names this fault."""
        return failure_class in (self.failure_class, *self.also_ok)

    def has_node(self, node: str) -> bool:
        """Whether the node is the one at fault; where none is, any of the fault's nodes will do, or no node."""
        return node == self.node if self.node else not (node and self.nodes) or node in self.nodes


class Truth(msgspec.Struct, frozen=True):
    """What really happened in a folder; `faults` is empty in a healthy one."""

    start: str
    end: str
    faults: tuple[TrueFault, ...]

    @property
    def hours(self) -> float:
        """How long the cluster was watched."""
        return (seconds(self.end) - seconds(self.start)) / 3600


class Found(msgspec.Struct, frozen=True):
    """An incident as far as it is scored; `candidates` are classes and nodes, the best first; times in seconds."""

    candidates: tuple[tuple[str, str], ...]
    jobs: frozenset[str]
    nodes: frozenset[str]
    onset_s: float
    last_s: float
    verdict: str = ""

    def __str__(self) -> str:
        failure_class, node = self.candidates[0]
        return f"{failure_class}@{node or '-'} jobs={','.join(sorted(self.jobs))} verdict={self.verdict or '-'}"


@dataclass(frozen=True)
class FaultScore:
    """One fault with what was found of it; None where the question does not arise."""

    fault: TrueFault
    place: str
    found: tuple[Found, ...]
    strays: tuple[Found, ...]
    top1: bool | None = None
    top3: bool | None = None
    one: bool = False
    verdict: bool | None = None
    got_verdict: str = NONE
    onset_error_s: float | None = None

    @property
    def wrong(self) -> list[str]:
        """The names of what is not right."""
        return [name for name in ASKED if getattr(self, name) is False]


@dataclass
class Scores:
    """All faults, and the healthy hours with what was found in them."""

    faults: list[FaultScore] = field(default_factory=list)
    healthy_hours: float = 0.0
    false_alarms: list[tuple[str, Found]] = field(default_factory=list)

    def add(self, place: str, truth: Truth, found: Sequence[Found]) -> None:
        """Take in a folder."""
        if truth.faults:
            self.faults += judge(place, truth, found)
        else:
            self.healthy_hours += truth.hours
            self.false_alarms += [(place, one) for one in found]

    def join(self, other: Scores) -> None:
        """Take in what another process scored."""
        self.faults += other.faults
        self.healthy_hours += other.healthy_hours
        self.false_alarms += other.false_alarms

    def figures(self) -> dict[str, Any]:
        """Shares from 0 to 1, counts, seconds; None where nothing was asked."""
        errors_s = sorted(one.onset_error_s for one in self.faults if one.onset_error_s is not None)
        return {
            "faults": len(self.faults),
            **{name: share(getattr(one, name) for one in self.faults) for name in ASKED},
            "healthy_hours": round(self.healthy_hours, 2),
            "false_alarms": len(self.false_alarms),
            "onset_p50_s": percentile(errors_s, 0.5),
            "onset_p95_s": percentile(errors_s, 0.95),
        }

    def by_kind(self) -> dict[str, dict[str, Any]]:
        """The figures of each kind of fault."""
        kinds = sorted({one.fault.fault for one in self.faults})
        return {kind: Scores([one for one in self.faults if one.fault.fault == kind]).figures() for kind in kinds}

    def confusion(self) -> Counter[tuple[str, str]]:
        """How often each verdict was given for each true one."""
        return Counter((one.fault.verdict, one.got_verdict) for one in self.faults if one.fault.verdict)


def judge(place: str, truth: Truth, found: Sequence[Found]) -> list[FaultScore]:
    """Each fault of a folder with the incidents that are its own, and the stray ones nearest to it in time."""
    own: list[list[Found]] = [[] for _ in truth.faults]
    strays: list[list[Found]] = [[] for _ in truth.faults]
    for incident in sorted(found, key=lambda one: one.onset_s):
        fits = [fit(incident, fault) for fault in truth.faults]
        if max(fits):
            own[fits.index(max(fits))].append(incident)
        else:
            apart_s = [abs(incident.onset_s - seconds(fault.onset)) for fault in truth.faults]
            strays[apart_s.index(min(apart_s))].append(incident)
    return [score(place, *row) for row in zip(truth.faults, own, strays, strict=True)]


def fit(incident: Found, fault: TrueFault) -> int:
    """How much speaks for it that the incident is about the fault; 0 when nothing does."""
    if incident.last_s < seconds(fault.onset) - BEFORE_S:
        return 0
    failure_class, node = incident.candidates[0]
    shares_place = 2 * bool(incident.jobs & set(fault.jobs)) + 2 * bool(incident.nodes & set(fault.nodes))
    has_place = bool(fault.jobs or fault.nodes)
    has_class = fault.has_class(failure_class)
    if not (shares_place if has_place else has_class):
        return 0
    return shares_place + 3 * has_class + (bool(fault.node) and node == fault.node)


def score(place: str, fault: TrueFault, own: Sequence[Found], strays: Sequence[Found]) -> FaultScore:
    """What is right of one fault. Of several incidents the one that began first counts as its answer."""
    answer = own[0] if own else None
    got = (answer.verdict or "-") if answer else NONE
    has_verdict = got == fault.verdict or (fault.verdict in NEEDS_NO_INCIDENT and not own)
    scored = FaultScore(
        fault, place, tuple(own), tuple(strays), got_verdict=got, verdict=has_verdict if fault.verdict else None
    )
    if not fault.incident:
        is_allowed = fault.optional and len(own) == 1 and (names(own[0].candidates[:1], fault) or has_verdict)
        return replace(scored, one=not strays and (not own or is_allowed))
    top1 = answer is not None and names(answer.candidates[:1], fault)
    return replace(
        scored,
        top1=top1,
        top3=answer is not None and names(answer.candidates[:3], fault),
        one=len(own) == 1 and not strays,
        onset_error_s=abs(answer.onset_s - seconds(fault.onset)) if answer and top1 else None,
    )


def names(candidates: Iterable[tuple[str, str]], fault: TrueFault) -> bool:
    """Whether one of the candidates has both the class and the node of the fault."""
    return any(fault.has_class(failure_class) and fault.has_node(node) for failure_class, node in candidates)


def found_of(document: Mapping[str, Any]) -> Found:
    """An incident from its document, as `epicenter replay --json` prints it."""
    root = document["root_cause"]
    ranked = [(one["class"], one["node"]) for one in document.get("candidates") or (root,)]
    onsets = [link["onset"] for link in document["chain"] if link["role"] == "root" and link["class"] == root["class"]]
    return Found(
        candidates=tuple(ranked),
        jobs=frozenset(document["jobs"]),
        nodes=frozenset(document["nodes"]) | ({root["node"]} - {""}),
        onset_s=seconds(root.get("onset") or next(iter(onsets), root["event_time"])),
        last_s=seconds(document["last_seen"]),
        verdict=document.get("verdict") or "",
    )


def seconds(time: str) -> float:
    """Seconds since the epoch of an ISO 8601 time in UTC."""
    return datetime.fromisoformat(time).timestamp()


def share(answers: Iterable[bool | None]) -> float | None:
    """The share of the right ones among those that were asked."""
    asked = [answer for answer in answers if answer is not None]
    return sum(asked) / len(asked) if asked else None


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """The smallest value with at least this part of all at or below it."""
    return round(ordered[max(0, ceil(part * len(ordered)) - 1)], 3) if ordered else None
