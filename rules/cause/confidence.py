"""The probability that the likeliest cause is the true one, and the share of each other answer.

An answer is a class at a node. The doubts about the first are its odds to be wrong: what evidence is missing, how good
it is, what else could be the cause. The other answers, and that it is none of them, share the rest by their points.
`bench.fit_cause_model` fits the weights; `bench.calibration` measures whether 0.8 is right in 80 of 100 cases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from epicenter.rules.cause.ranking import Candidate
from epicenter.rules.cause.suspects import WAITING_CLASSES
from epicenter.rules.packs.cause_model import ratio
from epicenter.rules.packs.vocabulary import vocabulary

MIN_CONFIDENCE: Final = 0.01
MAX_CONFIDENCE: Final = 0.99
"""Two digits can show no more doubt and no less."""


class Doubt(StrEnum):
    """What makes the first answer less likely or likelier to be right; names of the cause model."""

    ANY = "any"
    NO_NODE = "no-node"
    NO_KERNEL_LOG = "no-kernel-log"
    UNSEEN_RANKS = "unseen-ranks"
    MUTE_NODES = "mute-nodes"
    CUT_LOG = "cut-log"
    USUAL_EFFECT = "usual-effect"
    UNSEEN_CAUSE = "unseen-cause"
    ONLY_WAITING = "only-waiting"
    BACK_DATED = "back-dated"
    NO_LINE = "no-line"
    RIVAL = "rival"
    UNUSUAL_CAUSE = "unusual-cause"
    EXPLAINED = "explained"
    OUTLASTED = "outlasted"
    KERNEL = "kernel"
    USUAL_CAUSE = "usual-cause"
    AWAITED = "awaited"
    NAMED_BY_PEERS = "named-by-peers"
    LOST_ANOTHER = "lost-another"
    STANDSTILL = "standstill"
    EARLIEST = "earliest"


_BY_EVIDENCE: Final[Mapping[str, Doubt]] = {
    "role-confirmation": Doubt.UNUSUAL_CAUSE,
    "role-teardown": Doubt.UNUSUAL_CAUSE,
    "role-advice": Doubt.UNUSUAL_CAUSE,
    "explained-by": Doubt.EXPLAINED,
    "shared-explanation": Doubt.EXPLAINED,
    "outlasted": Doubt.OUTLASTED,
    "kernel": Doubt.KERNEL,
    "role-root": Doubt.USUAL_CAUSE,
    "awaited": Doubt.AWAITED,
    "awaited-by-kernel": Doubt.AWAITED,
    "named-by-peers": Doubt.NAMED_BY_PEERS,
    "lost-another": Doubt.LOST_ANOTHER,
    "standstill": Doubt.STANDSTILL,
    "earliest": Doubt.EARLIEST,
}
"""What the evidence for the first candidate says about whether it is the cause."""


def doubts_about(
    answers: Sequence[Candidate], gaps: Collection[Doubt] = (), has_known_causes: bool = False
) -> frozenset[str]:
    """What bears on whether the first answer is right. `has_known_causes`: an edge leads to its class."""
    first = answers[0]
    of_evidence = (_BY_EVIDENCE[name] for name in first.evidence if name in _BY_EVIDENCE)
    family = f"family-{vocabulary().family(first.signal.failure_class)}"
    return frozenset({Doubt.ANY, family, *gaps, *of_evidence, *_doubts(answers, gaps, has_known_causes)})


def _doubts(answers: Sequence[Candidate], gaps: Collection[Doubt], has_known_causes: bool) -> Iterator[Doubt]:
    signal = answers[0].signal
    if has_known_causes and signal.source != "kernel":
        yield Doubt.USUAL_EFFECT
        if Doubt.NO_KERNEL_LOG in gaps:
            yield Doubt.UNSEEN_CAUSE
    if all(answer.is_explained or answer.signal.failure_class in WAITING_CLASSES for answer in answers):
        yield Doubt.ONLY_WAITING
    if signal.onset_ns != signal.event_time_ns:
        yield Doubt.BACK_DATED
    if signal.position is None:
        yield Doubt.NO_LINE
    if rivals(scored(answers)):
        yield Doubt.RIVAL


def distinct(ranked: Iterable[Candidate]) -> list[Candidate]:
    """The best candidate of each class and node."""
    by_answer: dict[tuple[str, str], Candidate] = {}
    for candidate in ranked:
        by_answer.setdefault((candidate.signal.failure_class, candidate.signal.node), candidate)
    return list(by_answer.values())


class Scored(NamedTuple):
    """An answer as far as its probability depends on it. `is_effect`: another explains it, or it stopped nothing."""

    failure_class: str
    points: float
    is_effect: bool = False


def rivals(answers: Sequence[Scored]) -> list[int]:
    """Which answers could be the cause in place of the first: the best of each class that is no effect.

    The ranks of a job report an error from many nodes, which makes it no likelier to be the cause.
    """
    by_class: dict[str, int] = {}
    for number, answer in enumerate(answers[1:], start=1):
        if not answer.is_effect:
            best = by_class.setdefault(answer.failure_class, number)
            by_class[answer.failure_class] = max(best, number, key=lambda place: answers[place].points)
    return list(by_class.values())


def scored(answers: Iterable[Candidate]) -> list[Scored]:
    """The candidates as their probability needs them."""
    return [
        Scored(answer.signal.failure_class, answer.points, answer.is_explained or answer.is_idle) for answer in answers
    ]


class Shares(NamedTuple):
    """The probability of each answer, and that the cause is none of them."""

    of_answers: list[float]
    none: float


def shares_of(answers: Sequence[Scored], doubt_points: float, none_points: float) -> Shares:
    """The probability of each answer: of the first by the doubts about it, of the others by how near they are to it.

    `none_points` is what none of them counts compared with a rival that has as many points as the first.
    """
    known = 1 / (1 + ratio(doubt_points))
    weights = [ratio(answer.points - answers[0].points) for answer in answers]
    total = ratio(none_points) + sum(weights[number] for number in rivals(answers))
    others = [bounded(min(known, (1 - known) * weight / total)) for weight in weights[1:]]
    return Shares([bounded(known), *others], bounded((1 - known) * ratio(none_points) / total))


def shares(answers: Sequence[Candidate], doubts: Collection[str]) -> Shares:
    """The probability of each candidate of different class or node."""
    model = answers[0].model
    return shares_of(scored(answers), sum(map(model.doubt, sorted(doubts))), model.none)


def confidence(answers: Sequence[Candidate], doubts: Collection[str]) -> float:
    """The probability that the first of the answers is right."""
    return shares(answers, doubts).of_answers[0]


def bounded(share: float) -> float:
    """A probability in two digits, neither 0 nor 1."""
    return round(min(MAX_CONFIDENCE, max(MIN_CONFIDENCE, share)), 2)
