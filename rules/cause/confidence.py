"""How sure the likeliest cause is: each fact for it doubles its odds, each doubt halves them, once a point.

The points are chosen so that, over simulated failures with and without gaps in their logs, a confidence of 0.8 is
right in about 80 of 100 cases: `python -m bench.calibration` measures it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import Final

from epicenter.rules.cause.ranking import Candidate
from epicenter.rules.cause.reasons import ReasonKind

MIN_CONFIDENCE: Final = 0.05
MAX_CONFIDENCE: Final = 0.98
CLEAR_LEAD: Final = 5
"""Points ahead of every other unexplained candidate."""

NEAR: Final = 2
"""A candidate of another class at most this many points behind is a rival."""


class Gap(StrEnum):
    """Evidence that could show another cause, and is missing."""

    NODE = "no line names the node"
    KERNEL_LOG = "the node has no kernel log"
    RANKS = "ranks of the job never logged"


class Fact(StrEnum):
    """What speaks for or against the likeliest cause."""

    ANY = "a candidate was found"
    KERNEL = "the kernel reports it"
    USUAL_CAUSE = "its class is usually a cause"
    AWAITED = "it comes from the rank that the others wait for"
    CLEAR_LEAD = "no other unexplained candidate is near"
    EXPLAINED = "another candidate explains it"
    USUAL_EFFECT = "its class has known causes, none was found, and no kernel reports it"
    BACK_DATED = "it was noticed by waiting, so its onset is not known"
    RIVAL = "an unexplained candidate of another class is near"


POINTS: Final[dict[Fact | Gap, int]] = {
    Fact.ANY: 2,
    Fact.KERNEL: 2,
    Fact.USUAL_CAUSE: 2,
    Fact.AWAITED: 1,
    Fact.CLEAR_LEAD: 1,
    Fact.EXPLAINED: -3,
    Fact.USUAL_EFFECT: -1,
    Fact.BACK_DATED: -1,
    Fact.RIVAL: -1,
    Gap.NODE: -1,
    Gap.KERNEL_LOG: -2,
    Gap.RANKS: -3,
}


def confidence(ranked: Sequence[Candidate], gaps: Collection[Gap] = (), has_known_causes: bool = False) -> float:
    """How sure the first candidate is; `has_known_causes`: an edge leads to its class."""
    found: list[Fact | Gap] = [*_facts(ranked, has_known_causes), *gaps]
    ratio = 2.0 ** sum(POINTS[fact] for fact in found)
    return round(min(MAX_CONFIDENCE, max(MIN_CONFIDENCE, ratio / (1 + ratio))), 2)


def _facts(ranked: Sequence[Candidate], has_known_causes: bool) -> Iterator[Fact]:
    best = ranked[0]
    signal = best.signal
    rivals = [candidate for candidate in ranked[1:] if not candidate.is_explained and _differ(candidate, best)]
    yield Fact.ANY
    if signal.source == "kernel":
        yield Fact.KERNEL
    if signal.role == "root":
        yield Fact.USUAL_CAUSE
    if any(reason.kind is ReasonKind.AWAITED for reason in best.reasons):
        yield Fact.AWAITED
    if all(best.points - rival.points >= CLEAR_LEAD for rival in rivals):
        yield Fact.CLEAR_LEAD
    if best.is_explained:
        yield Fact.EXPLAINED
    if has_known_causes and signal.source != "kernel":
        yield Fact.USUAL_EFFECT
    if signal.onset_ns != signal.event_time_ns:
        yield Fact.BACK_DATED
    if any(_is_near(rival, best) for rival in rivals):
        yield Fact.RIVAL


def _differ(candidate: Candidate, other: Candidate) -> bool:
    return (candidate.signal.failure_class, candidate.signal.node) != (other.signal.failure_class, other.signal.node)


def _is_near(rival: Candidate, best: Candidate) -> bool:
    return rival.signal.failure_class != best.signal.failure_class and best.points - rival.points <= NEAR
