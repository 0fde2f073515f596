"""Which failure of a log came first and explains the others: the same ranking as for incidents, over one job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from rules.cause import Candidate, rank
from rules.model import NS_PER_S, Signal
from rules.reason import ReasonKind
from rules.reason_text import cascade_text
from rules.ruleset import RuleSet
from rules.triage.heartbeat import earlier_errors
from rules.triage.projection import steps_this_run
from rules.triage.status import STALL_STEPS, is_cancellation, outlived
from rules.triage.story import Story

OUTLIVED_POINTS: Final = -10
AFTER_CANCELLING_POINTS: Final = -8
DEADLY_POINTS: Final = 10
NEAR_NS: Final = 300 * NS_PER_S
"""A step is printed late: what happened so shortly before the last one may still be what stopped the job."""


def ranked(story: Story, rules: RuleSet) -> list[Candidate]:
    """The failures of the newest attempt as candidates for the cause, the best first.

    When it shows none and did not come far, those of the attempt before it.
    """
    deadly = _deadly(story)
    kept = {signal.signal_id: signal for signal in (*story.signals(), *deadly)}
    if not kept and steps_this_run(story) < STALL_STEPS:
        kept = {signal.signal_id: signal for finding in story.failures() for signal in finding.earlier}
    candidates = rank(_in_line_order(story, kept.values()), rules.edges_between, lambda _: {story.path}) if kept else []
    cancelled_at, deadly_ids = _first_cancellation(story), {signal.signal_id for signal in deadly}
    for candidate in candidates:
        candidate.signal = kept[candidate.signal.signal_id]
        _weigh_in_log(candidate, story, cancelled_at)
        if candidate.signal.signal_id in deadly_ids:
            candidate.weigh(ReasonKind.DEADLY, DEADLY_POINTS)
    return sorted(candidates, key=lambda candidate: -candidate.points)


def cascade(candidates: Iterable[Candidate], primary: str | None) -> tuple[str, ...]:
    """What led to what, in words, one sentence for each class that another one explains; the primary one needs none."""
    told: dict[str, str] = {}
    for candidate in candidates:
        name, cause = candidate.signal.failure_class, candidate.explained_by
        if cause and name != primary:
            told.setdefault(name, cascade_text(name, cause))
    return tuple(told.values())


def is_near_the_stop(story: Story, signal: Signal) -> bool:
    """Whether it came when steps stopped, or later: only then can it be why they did."""
    steps = story.steps
    if steps.last is None or story.is_after(steps.last_line, signal.position):
        return True
    said_ns = story.time_of(signal)
    return None not in (steps.last_time_ns, said_ns) and (said_ns or 0) >= (steps.last_time_ns or 0) - NEAR_NS


def _first_cancellation(story: Story) -> int | None:
    """The line of the log at which somebody ended the job; None when none says so."""
    lines = [
        signal.position.offset
        for finding in story.failures()
        if is_cancellation(finding.failure_class)
        for signal in finding.signals
        if signal.position and story.is_in_log(signal.position)
    ]
    return min(lines, default=None)


def _deadly(story: Story) -> list[Signal]:
    """Errors of tasks that then stopped sending heartbeats."""
    heartbeat = story.findings.get("heartbeat-timeout")
    return earlier_errors(story, heartbeat) if heartbeat and heartbeat.signals else []


def _weigh_in_log(candidate: Candidate, story: Story, cancelled_at: int | None) -> None:
    signal = candidate.signal
    if outlived(story, signal):
        candidate.weigh(ReasonKind.OUTLIVED, OUTLIVED_POINTS)
    is_ending = is_cancellation(signal.failure_class)
    if cancelled_at is not None and not is_ending and story.is_after(cancelled_at, signal.position):
        candidate.weigh(ReasonKind.AFTER_CANCELLATION, AFTER_CANCELLING_POINTS)


def _in_line_order(story: Story, signals: Iterable[Signal]) -> list[Signal]:
    """Signals of which none is later than those further down in its file; lines of one time are a nanosecond apart.

    So a line without a time, which was given that of the file, does not come after what it brought about. A task's line
    without a node gets the one that the task ended on. Where no line tells a time, how long a kernel line had waited
    says nothing of its order among the others: each was printed as it happened.
    """
    moved, latest_ns, signals = list[Signal](), dict[str, int](), list(signals)
    is_dated = any(story.time_of(signal) is not None for signal in signals)
    for signal in sorted(signals, key=_place, reverse=True):
        source, line = _place(signal)
        latest_ns[source] = min(latest_ns.get(source, signal.event_time_ns), signal.event_time_ns)
        has_waited = is_dated or signal.source != "kernel"
        time_ns, waited_ns = latest_ns[source] + line, (signal.event_time_ns - signal.onset_ns) * has_waited
        onset_ns, node = time_ns - waited_ns, signal.node or story.node_of(signal.rank)
        moved.append(msgspec.structs.replace(signal, event_time_ns=time_ns, onset_ns=onset_ns, node=node, job=""))
    return moved


def _place(signal: Signal) -> tuple[str, int]:
    return (signal.position.source, signal.position.offset) if signal.position else ("", 0)
