"""The cascade of an incident: its root and effects as links, a cause before its effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from epicenter.rules.cause.ranking import NOTICED_BY_WAITING, Candidate
from epicenter.rules.event_time.ordering import onset_order
from epicenter.rules.model.incident import ChainLink
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import iso_from_ns
from epicenter.rules.packs.ruleset import RuleSet

MAX_SHOWN_PER_CLASS: Final = 3
MAX_TEXT_LENGTH: Final = 1000


def chain_of(ranked: Sequence[Candidate], root: Signal) -> list[Candidate]:
    """The root, and the first few of each class, earliest onset first; no link before the one that explains it."""
    shown: dict[str, int] = {}
    chain = []
    for candidate in sorted(ranked, key=_chain_order):
        failure_class = candidate.signal.failure_class
        shown[failure_class] = shown.get(failure_class, 0) + 1
        if shown[failure_class] <= MAX_SHOWN_PER_CLASS or candidate.signal is root:
            chain.append(candidate)
    return causes_first(chain)


def causes_first(chain: Sequence[Candidate]) -> list[Candidate]:
    """The links in their order, except that an explainer comes before what it explains: clocks differ."""
    by_place: dict[tuple[str, str], Candidate] = {}
    for candidate in chain:
        by_place.setdefault((candidate.signal.failure_class, candidate.signal.node), candidate)
    placed: dict[str, Candidate] = {}
    for candidate in chain:
        waiting = {candidate.signal.signal_id: candidate}
        cause: Candidate | None = candidate
        while cause and (why := cause.explained_by):
            cause = by_place.get((why.failure_class, why.node))
            if cause is None or cause.signal.signal_id in placed | waiting:
                break
            waiting[cause.signal.signal_id] = cause
        placed |= dict(reversed(waiting.items()))
    return list(placed.values())


def _chain_order(candidate: Candidate) -> tuple[int, int, str, str, int, str]:
    """By onset; an explained failure that was noticed by waiting comes at the time of its report."""
    order = onset_order(candidate.signal)
    is_reported_late = candidate.is_explained and candidate.signal.failure_class in NOTICED_BY_WAITING
    return (candidate.signal.event_time_ns, *order[1:]) if is_reported_late else order


def is_dated_back(signal: Signal, rules: RuleSet) -> bool:
    """Whether its onset follows from how long something waited: a rule's `waited`, or missing logs."""
    rule = rules.by_id.get(signal.rule)
    is_of_silence = signal.position is None and "verdict" in signal.fields
    has_waited = is_of_silence or bool(rule and (rule.spec.waited or rule.waited_ns(signal.fields)))
    return has_waited and signal.onset_ns < signal.event_time_ns


def link_of(candidate: Candidate, root: Candidate, is_dated_back: bool) -> ChainLink:
    """The link of a signal; it began at the start of its wait at the earliest, at its line at the latest."""
    signal = candidate.signal
    event_time = iso_from_ns(signal.event_time_ns)
    onset = event_time if signal.onset_ns == signal.event_time_ns else iso_from_ns(signal.onset_ns)
    return ChainLink(
        event_time=event_time,
        onset=onset,
        node=signal.node,
        rank=signal.rank,
        failure_class=signal.failure_class,
        role=_role(candidate, root),
        text=signal.text[:MAX_TEXT_LENGTH],
        onset_earliest=onset if is_dated_back else "",
        onset_latest=event_time if is_dated_back else "",
    )


def _role(candidate: Candidate, root: Candidate) -> str:
    """`cascade` is a consequence, so never what nothing explains and what came before the root."""
    signal = candidate.signal
    if signal is root.signal:
        return "root"
    if candidate.is_explained and signal.role == "root":
        return "cascade"
    is_before = not candidate.is_explained and _chain_order(candidate) < _chain_order(root)
    return "context" if is_before and signal.role == "cascade" else signal.role
