"""Attempts of a job that failed before the newest one: a restart that succeeds must not hide them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from epicenter.rules.cause.ranking import rank
from epicenter.rules.model.signals import ERRORS, Signal
from epicenter.rules.model.times import iso_from_ns
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.report.headline import headline
from epicenter.rules.triage.document import FailedAttempt
from epicenter.rules.triage.primary import is_ending
from epicenter.rules.triage.run_facts import STALL_STEPS
from epicenter.rules.triage.story import EndedAttempt, Story

MAX_SHOWN: Final = 3


def failed_attempts(story: Story, rules: RuleSet) -> Iterator[FailedAttempt]:
    """The attempts before the newest one whose lines report a failure that they did not outlive."""
    for attempt in story.ended:
        if failures := [signal for signal in attempt.signals if _ended(signal, attempt, story)]:
            cause = rank(failures, rules.edges_between, lambda _: {story.path}, rules.cause_model)[0].signal
            yield _failed_attempt(attempt, cause, story, rules)


def _ended(signal: Signal, attempt: EndedAttempt, story: Story) -> bool:
    """Whether the signal reports an error, and at most a few steps follow it in its attempt."""
    last = attempt.last_step or 0
    is_error = signal.severity in ERRORS and not is_ending(signal)
    return is_error and last - story.step_at.get(signal.signal_id, last) < STALL_STEPS


def _failed_attempt(attempt: EndedAttempt, cause: Signal, story: Story, rules: RuleSet) -> FailedAttempt:
    time_ns, place = story.time_of(cause), cause.position
    return FailedAttempt(
        attempt=attempt.number,
        failure_class=cause.failure_class,
        title=headline(msgspec.structs.replace(cause, job=""), rules.by_id[cause.rule].spec),
        node=cause.node,
        rank=cause.rank,
        last_step=attempt.last_step,
        time=None if time_ns is None else iso_from_ns(time_ns),
        line=place.offset if place else 0,
        file=place.source if place and not story.is_in_log(place) else "",
    )


def attempts_text(failed: Sequence[FailedAttempt]) -> Iterator[str]:
    """A sentence for each of the newest failed attempts, and one for the others."""
    if (others := len(failed) - MAX_SHOWN) > 0:
        yield f"{others} earlier {'attempt' if others == 1 else 'attempts'} failed as well."
    for attempt in failed[-MAX_SHOWN:]:
        yield attempt_text(attempt)


def attempt_text(attempt: FailedAttempt) -> str:
    """`Attempt 1 failed after step 59, at 2026-03-02 09:00:59Z, line 63: KeyError 'input_ids' at train.py:61.`"""
    places = [
        "" if attempt.last_step is None else f"after step {attempt.last_step}",
        f"at {attempt.time[:19].replace('T', ' ')}Z" if attempt.time else "",
        f"line {attempt.line}" if attempt.line else "",
    ]
    where = ", ".join(place for place in places if place)
    return f"Attempt {attempt.attempt} failed {where}: {attempt.title}."
