"""Which failure of a log came first and explains the others: the same ranking as for incidents, over one job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from epicenter.rules.cause.ranking import Candidate, rank
from epicenter.rules.cause.reasons import ReasonKind
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.triage.run_facts import HEARTBEAT, STALL_STEPS, RunFacts, is_cancellation
from epicenter.rules.triage.story import Story

OUTLIVED_POINTS: Final = -10
AFTER_CANCELLING_POINTS: Final = -8
DEADLY_POINTS: Final = 10


def ranked(run: RunFacts, rules: RuleSet) -> list[Candidate]:
    """The failures of the newest attempt as candidates for the cause, best first.

    If it has none and did not get far, those of the attempts before it.
    """
    story, heartbeat = run.story, run.story.findings.get(HEARTBEAT)
    deaths = run.deaths if heartbeat and heartbeat.signals else ()
    by_id = {signal.signal_id: signal for signal in (*run.signals, *deaths)}
    if not by_id and run.progress.steps_this_run < STALL_STEPS:
        by_id = {signal.signal_id: signal for finding in run.failures for signal in finding.earlier}
    candidates = (
        rank(_in_line_order(story, by_id.values()), rules.edges_between, lambda _: {story.path}) if by_id else []
    )
    ids_of_deaths = {signal.signal_id for signal in deaths}
    for candidate in candidates:
        candidate.signal = by_id[candidate.signal.signal_id]
        _weigh_in_log(candidate, run)
        if candidate.signal.signal_id in ids_of_deaths:
            candidate.weigh(ReasonKind.DEADLY, DEADLY_POINTS)
    return sorted(candidates, key=lambda candidate: -candidate.points)


def _weigh_in_log(candidate: Candidate, run: RunFacts) -> None:
    signal, cancelled_at = candidate.signal, run.cancelled_at
    if signal.signal_id in run.outlived:
        candidate.weigh(ReasonKind.OUTLIVED, OUTLIVED_POINTS)
    is_ending = is_cancellation(signal.failure_class)
    if cancelled_at is not None and not is_ending and run.story.is_after(cancelled_at, signal.position):
        candidate.weigh(ReasonKind.AFTER_CANCELLATION, AFTER_CANCELLING_POINTS)


def _in_line_order(story: Story, signals: Iterable[Signal]) -> list[Signal]:
    """The signals with times in the order of their lines in each file; lines of one time are a nanosecond apart.

    So a line without a time, which got that of the file, does not come after its effects. A task's line without a node
    gets the node that the task ended on. If no line has a time, how long a kernel line had waited says nothing about
    its order: each was printed as it happened.
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
