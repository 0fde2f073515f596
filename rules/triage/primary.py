"""Which failure of a log came first and explains the others: the same ranking as for incidents, over one job."""

from __future__ import annotations

import msgspec

from rules.cause import Candidate, confidence, rank
from rules.model import Signal
from rules.ruleset import RuleSet
from rules.triage.story import Story


def ranked(story: Story, rules: RuleSet) -> list[Candidate]:
    """The failures of a log as candidates for the cause, the best first; empty when nothing failed."""
    signals = _in_line_order(list(story.signals())) if len(story.files) == 1 else list(story.signals())
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


def _in_line_order(signals: list[Signal]) -> list[Signal]:
    """Signals of one file, none later than those of the lines after it; lines of one time are a nanosecond apart.

    So a line without a time, which was given that of the file, does not come after what it brought about.
    """
    ordered = sorted(signals, key=lambda signal: signal.position.offset if signal.position else 0, reverse=True)
    moved, latest_ns = [], 1 << 63
    for signal in ordered:
        latest_ns = min(latest_ns, signal.event_time_ns)
        place, waited_ns = signal.position.offset if signal.position else 0, signal.event_time_ns - signal.onset_ns
        time_ns = latest_ns + place
        moved.append(msgspec.structs.replace(signal, event_time_ns=time_ns, onset_ns=time_ns - waited_ns, job=""))
    return moved
