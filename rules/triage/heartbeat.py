"""Whether JAX tasks that were reported dead had really died: often they had not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.triage.document import Check
from epicenter.rules.triage.run_facts import RunFacts
from epicenter.rules.triage.story import Finding, Story

_SHOWN: Final = 8


def heartbeat_checks(story: Story, run: RunFacts, heartbeat: Finding) -> list[Check]:
    """The checklist for a false alarm, with the answers from the log."""
    reported_dead = sorted(story.reported_dead)
    alive, stepping = _self_reported(story, reported_dead), _still_stepping(story, reported_dead)
    earlier = [_error_on_task(signal) for signal in run.deaths[:_SHOWN]]
    return [
        Check("Real death or false alarm?", _verdict(earlier, [*alive, *stepping])),
        Check("Which tasks were reported dead?", numbers(reported_dead) or "the log does not name them"),
        Check(
            "Did one of them report the error itself?",
            f"yes, task {numbers(alive)}: it was alive" if alive else "no line shows it",
        ),
        Check("Did one of them fail earlier?", "; ".join(earlier) or "no: none of them logged an error before"),
        Check(
            "Did one of them still complete steps?",
            f"yes, task {numbers(stepping)} got as far as the others"
            if stepping
            else "unknown: their lines have no recent step",
        ),
        Check("Had the job stalled before?", _silence_before(story, heartbeat)),
        Check("Are there metrics of that time?", _metrics(story)),
    ]


def numbers(ranks: Iterable[int]) -> str:
    """`3, 5, 8`; of many, the first few and the total."""
    distinct = sorted(set(ranks))
    shown = ", ".join(map(str, distinct[:_SHOWN]))
    return f"{shown} … ({len(distinct)} in all)" if len(distinct) > _SHOWN else shown


def _verdict(earlier: list[str], alive: list[int]) -> str:
    if earlier:
        return "a real death: the earlier error is the cause"
    if alive:
        return "a false alarm: a task that was reported dead was alive"
    return "most likely a false alarm: no line shows a death"


def _self_reported(story: Story, reported_dead: list[int]) -> list[int]:
    fact, finding = story.facts.get("job.coordinator_reported"), story.findings.get("jax-coordination-error")
    spoke = (fact.ranks if fact else set()) | set(finding.by_rank if finding else ())
    return [task for task in reported_dead if task in spoke]


def _still_stepping(story: Story, reported_dead: list[int]) -> list[int]:
    newest, last = story.steps.newest_by_rank, story.steps.last or 0
    return [task for task in reported_dead if newest.get(task, -1) >= last - 1]


def _error_on_task(signal: Signal) -> str:
    return f"{signal.failure_class} on task {signal.rank} at line {signal.position.offset if signal.position else '?'}"


def _silence_before(story: Story, heartbeat: Finding) -> str:
    last_ns, reported_ns = story.steps.last_time_ns, story.time_of(heartbeat.first)
    if last_ns is None or reported_ns is None or story.steps.last is None:
        return "the log does not show the times"
    waited_s = max(0, (reported_ns - last_ns) // NS_PER_S)
    return f"the last step ({story.steps.last}) was {waited_s} s earlier"


def _metrics(story: Story) -> str:
    if any(name.endswith("prometheus") for name in story.artifacts):
        return "yes, in prometheus/: GPU use, TCP retransmits, I/O pressure and memory show whether tasks were healthy"
    return "none next to the log"
