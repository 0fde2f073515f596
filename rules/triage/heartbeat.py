"""Whether JAX tasks that were declared dead had really died: often they had not."""

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
    """The checklist for a false alarm, with the answers of the log."""
    accused = sorted(story.accused)
    alive, stepping = _self_reported(story, accused), _still_stepping(story, accused)
    earlier = [_error_on_task(signal) for signal in run.deaths[:_SHOWN]]
    return [
        Check("Which tasks are accused?", numbers(accused) or "the log does not name them"),
        Check(
            "Did an accused task report the error itself?",
            f"yes, task {numbers(alive)}: it was alive" if alive else "no line of theirs says so",
        ),
        Check("Did an accused task fail earlier?", "; ".join(earlier) or "no error of theirs comes before it"),
        Check(
            "Did an accused task still make steps?",
            f"yes, task {numbers(stepping)} came as far as the others"
            if stepping
            else "their lines tell no newest step",
        ),
        Check("Did the job stand still before?", _silence_before(story, heartbeat)),
        Check("Are there metrics of that time?", _metrics(story)),
        Check("Real death or false alarm?", _verdict(earlier, [*alive, *stepping])),
    ]


def numbers(ranks: Iterable[int]) -> str:
    """`3, 5, 8`; of many only the first ones, and how many there are."""
    distinct = sorted(set(ranks))
    shown = ", ".join(map(str, distinct[:_SHOWN]))
    return f"{shown} … ({len(distinct)} in all)" if len(distinct) > _SHOWN else shown


def _verdict(earlier: list[str], alive: list[int]) -> str:
    if earlier:
        return "a real death: the earlier error is the cause"
    if alive:
        return "a false alarm: a task that was called dead was alive"
    return "most likely a false alarm: nothing shows a death"


def _self_reported(story: Story, accused: list[int]) -> list[int]:
    fact, finding = story.facts.get("job.coordinator_reported"), story.findings.get("jax-coordination-error")
    spoke = (fact.ranks if fact else set()) | set(finding.by_rank if finding else ())
    return [task for task in accused if task in spoke]


def _still_stepping(story: Story, accused: list[int]) -> list[int]:
    newest, last = story.steps.newest_by_rank, story.steps.last or 0
    return [task for task in accused if newest.get(task, -1) >= last - 1]


def _error_on_task(signal: Signal) -> str:
    return f"{signal.failure_class} on task {signal.rank} at line {signal.position.offset if signal.position else '?'}"


def _silence_before(story: Story, heartbeat: Finding) -> str:
    last_ns, reported_ns = story.steps.last_time_ns, story.time_of(heartbeat.first)
    if last_ns is None or reported_ns is None or story.steps.last is None:
        return "the log does not tell the times"
    waited_s = max(0, (reported_ns - last_ns) // NS_PER_S)
    return f"the last step ({story.steps.last}) came {waited_s} s before it"


def _metrics(story: Story) -> str:
    if any(name.endswith("prometheus") for name in story.artifacts):
        return "yes, in prometheus/: GPU use, TCP retransmits, I/O pressure and memory show whether the tasks were well"
    return "none beside the log; a run with RAY=1 keeps them"
