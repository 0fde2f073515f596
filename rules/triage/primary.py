"""Which failure of a log came first and explains the others: the same ranking as for incidents, over one job."""

from __future__ import annotations

import msgspec

from rules.cause import Candidate, confidence, rank
from rules.model import Signal
from rules.ruleset import RuleSet
from rules.triage.story import Story


def ranked(story: Story, rules: RuleSet) -> list[Candidate]:
    """The failures of a log as candidates for the cause, the best first; empty when nothing failed."""
    signals = [_in_line_order(signal) for signal in story.signals()]
    return rank(signals, rules.edges, lambda _: {story.path}) if signals else []


def best(candidates: list[Candidate]) -> tuple[Signal, float, tuple[str, ...]] | None:
    """The cause with its confidence (0..1) and reasons."""
    if not candidates:
        return None
    return candidates[0].signal, confidence(candidates), tuple(candidates[0].reasons)


def cascade(candidates: list[Candidate]) -> tuple[str, ...]:
    """What led to what, in words, one sentence for each class that another one explains."""
    told: dict[str, str] = {}
    for candidate in candidates:
        reason = next((one for one in candidate.reasons if one.startswith("explained by ")), "")
        if reason:
            told.setdefault(candidate.signal.failure_class, f"{candidate.signal.failure_class} is {reason}")
    return tuple(told.values())


def _in_line_order(signal: Signal) -> Signal:
    """Lines of the same time, or without any, are told apart by their place: a nanosecond a line."""
    place = signal.position.offset if signal.position else 0
    return msgspec.structs.replace(
        signal, onset_ns=signal.onset_ns + place, event_time_ns=signal.event_time_ns + place, job=""
    )
