"""Compares incidents with the truth of a simulated folder, fault by fault. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from typing import Any, Final

import msgspec

from bench.reliability import Answer, brier
from epicenter.rules.model.signals import ERRORS

NEEDS_NO_INCIDENT: Final = ("finished", "cancelled", "shipper-silent", "buffered", "pipeline-behind")
"""Verdicts that need no notification."""

NONE: Final = "none"
FLEET_GPUS: Final = 500
BEFORE_S: Final = 60.0
"""An incident whose last line is longer than this before the onset does not belong to the fault."""

MEASURES: Final = ("top1", "top3", "one", "verdict")


class TrueFault(msgspec.Struct, frozen=True):
    """A true fault. An empty name means that there is none; `onset` is ISO 8601.

    `also_ok` are classes that name the same event. `optional`: one incident about it is right as well. `names_node`
    and `names_class`: the logs hold it; where they don't, no node is right too, and any class.
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
    names_node: bool = True
    names_class: bool = True

    def has_class(self, failure_class: str) -> bool:
        """Whether the class names this fault."""
        return not self.names_class or failure_class in (self.failure_class, *self.also_ok)

    def has_node(self, node: str) -> bool:
        """Whether the node is the faulty one; where none is, any of the fault's nodes is right, or no node."""
        if not (node or self.names_node):
            return True
        return node == self.node if self.node else not (node and self.nodes) or node in self.nodes


class Truth(msgspec.Struct, frozen=True):
    """The truth of a folder; `faults` is empty in a healthy one."""

    start: str
    end: str
    faults: tuple[TrueFault, ...]
    nodes: int = 0
    gpus_per_node: int = 8
    disturbances: tuple[str, ...] = ()

    @property
    def hours(self) -> float:
        """How long the cluster was watched."""
        return (seconds(self.end) - seconds(self.start)) / 3600

    @property
    def gpu_hours(self) -> float:
        """The same, times the number of GPUs."""
        return self.hours * self.nodes * self.gpus_per_node


class Found(msgspec.Struct, frozen=True):
    """An incident as far as it is scored; `candidates` are classes and nodes, the best first; times in seconds."""

    candidates: tuple[tuple[str, str], ...]
    jobs: frozenset[str]
    nodes: frozenset[str]
    onset_s: float
    last_s: float
    verdict: str = ""
    confidence: float = 0.0
    severity: str = "error"

    @property
    def is_page(self) -> bool:
        """Whether people are paged for it; a ticket is enough for the rest."""
        return self.severity in ERRORS

    def __str__(self) -> str:
        failure_class, node = self.candidates[0]
        jobs, kind = ",".join(sorted(self.jobs)), "page" if self.is_page else "ticket"
        return f"{kind} {failure_class}@{node or '-'} jobs={jobs} verdict={self.verdict or '-'} {self.confidence:.2f}"


@dataclass(frozen=True)
class FaultScore:
    """One fault with the incidents found for it; None where a measure does not apply."""

    fault: TrueFault
    place: str
    found: tuple[Found, ...]
    strays: tuple[Found, ...]
    disturbances: tuple[str, ...] = ()
    answer: Found | None = None
    top1: bool | None = None
    top3: bool | None = None
    one: bool = False
    verdict: bool | None = None
    got_verdict: str = NONE
    onset_error_s: float | None = None

    @property
    def is_all_right(self) -> bool:
        """Whether no measure is wrong."""
        return not self.wrong

    @property
    def wrong(self) -> list[str]:
        """The measures that are wrong."""
        return [name for name in MEASURES if getattr(self, name) is False]


@dataclass
class Scores:
    """All faults, and the healthy hours with the incidents found in them."""

    faults: list[FaultScore] = field(default_factory=list)
    healthy_hours: float = 0.0
    healthy_gpu_hours: float = 0.0
    false_alarms: list[tuple[str, Found]] = field(default_factory=list)

    def add(self, place: str, truth: Truth, found: Sequence[Found]) -> None:
        """Add a folder."""
        if truth.faults:
            self.faults += judge(place, truth, found)
        else:
            self.healthy_hours += truth.hours
            self.healthy_gpu_hours += truth.gpu_hours
            self.false_alarms += [(place, incident) for incident in found]

    def figures(self) -> dict[str, Any]:
        """Shares from 0 to 1, counts, seconds; None where no fault applies."""
        pages = sum(incident.is_page for _, incident in self.false_alarms)
        errors_s = sorted(fault.onset_error_s for fault in self.faults if fault.onset_error_s is not None)
        return {
            "faults": len(self.faults),
            "all_right": share(fault.is_all_right for fault in self.faults),
            **{name: share(getattr(fault, name) for fault in self.faults) for name in MEASURES},
            "brier": brier(self.answers()),
            "healthy_hours": round(self.healthy_hours, 2),
            "false_pages": pages,
            "false_tickets": len(self.false_alarms) - pages,
            "pages_a_day": pages * 24 * FLEET_GPUS / self.healthy_gpu_hours if self.healthy_gpu_hours else None,
            "onset_p50_s": percentile(errors_s, 0.5),
            "onset_p95_s": percentile(errors_s, 0.95),
        }

    def answers(self) -> list[Answer]:
        """The confidence of each first cause, and whether it is right, where an incident was wanted and found."""
        wanted = (score for score in self.faults if score.fault.incident)
        return [(score.answer.confidence, bool(score.top1)) for score in wanted if score.answer]

    def by_disturbance(self) -> dict[str, dict[str, Any]]:
        """The figures of the faults with each disturbance, and of those with none."""
        names = sorted({name for score in self.faults for name in score.disturbances})
        groups = {name: [score for score in self.faults if name in score.disturbances] for name in names}
        groups["none"] = [score for score in self.faults if not score.disturbances]
        return {name: Scores(scores).figures() for name, scores in groups.items() if scores}

    def by_kind(self) -> dict[str, dict[str, Any]]:
        """The figures of each kind of fault."""
        kinds = sorted({score.fault.fault for score in self.faults})
        return {kind: Scores([score for score in self.faults if score.fault.fault == kind]).figures() for kind in kinds}

    def confusion(self) -> Counter[tuple[str, str]]:
        """How often each verdict was given for each true one."""
        return Counter((score.fault.verdict, score.got_verdict) for score in self.faults if score.fault.verdict)


def judge(place: str, truth: Truth, found: Sequence[Found]) -> list[FaultScore]:
    """Each fault of a folder with its incidents, of two that fit as well the nearer in time, and with the stray ones
    nearest to it.
    """
    own: list[list[Found]] = [[] for _ in truth.faults]
    strays: list[list[Found]] = [[] for _ in truth.faults]
    for incident in sorted(found, key=lambda incident: incident.onset_s):
        fits = [(fit(incident, fault), -abs(incident.onset_s - seconds(fault.onset))) for fault in truth.faults]
        (own if max(fits)[0] else strays)[fits.index(max(fits))].append(incident)
    rows = zip(truth.faults, own, strays, strict=True)
    return [replace(score(place, *row), disturbances=truth.disturbances) for row in rows]


def fit(incident: Found, fault: TrueFault) -> int:
    """How well the incident fits the fault; 0 when it does not."""
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
    """The score of one fault. Of several incidents the one that fits best is its answer, of equals the first.

    Tickets about something else are no mistake.
    """
    answer = max(own, key=lambda incident: fit(incident, fault), default=None)
    pages = [incident for incident in (*own, *strays) if incident.is_page and incident is not answer]
    got = (answer.verdict or "-") if answer else NONE
    has_incident = any(not fault.jobs or incident.jobs & set(fault.jobs) for incident in own)
    has_verdict = got == fault.verdict or (fault.verdict in NEEDS_NO_INCIDENT and not has_incident)
    verdict = has_verdict if fault.verdict else None
    scored = FaultScore(fault, place, tuple(own), tuple(strays), answer=answer, got_verdict=got, verdict=verdict)
    if not fault.incident:
        is_allowed = fault.optional and answer and (names(answer.candidates[:1], fault) or got == fault.verdict)
        return replace(scored, one=not pages and (not answer or not answer.is_page or bool(is_allowed)))
    top1 = answer is not None and names(answer.candidates[:1], fault)
    return replace(
        scored,
        top1=top1,
        top3=answer is not None and names(answer.candidates[:3], fault),
        one=answer is not None and not pages,
        onset_error_s=abs(answer.onset_s - seconds(fault.onset)) if answer and top1 else None,
    )


def names(candidates: Iterable[tuple[str, str]], fault: TrueFault) -> bool:
    """Whether one of the candidates has both the class and the node of the fault."""
    return any(fault.has_class(failure_class) and fault.has_node(node) for failure_class, node in candidates)


def found_of(document: Mapping[str, Any]) -> Found:
    """An incident from its document, as `epicenter replay --json` prints it."""
    root = document["root_cause"]
    ranked = [(candidate["class"], candidate["node"]) for candidate in document.get("candidates") or (root,)]
    onsets = [link["onset"] for link in document["chain"] if link["role"] == "root" and link["class"] == root["class"]]
    return Found(
        candidates=tuple(ranked),
        jobs=frozenset(document["jobs"]),
        nodes=frozenset(document["nodes"]) | ({root["node"]} - {""}),
        onset_s=seconds(root.get("onset") or next(iter(onsets), root["event_time"])),
        last_s=seconds(document["last_seen"]),
        verdict=document.get("verdict") or "",
        confidence=root.get("confidence") or 0.0,
        severity=document["severity"],
    )


def seconds(time: str) -> float:
    """Seconds since the epoch of an ISO 8601 time in UTC."""
    return datetime.fromisoformat(time).timestamp()


def share(answers: Iterable[bool | None]) -> float | None:
    """The share of right answers among those that apply."""
    given = [answer for answer in answers if answer is not None]
    return sum(given) / len(given) if given else None


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """The smallest value with at least this part of all at or below it."""
    return round(ordered[max(0, ceil(part * len(ordered)) - 1)], 3) if ordered else None
