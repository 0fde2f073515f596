"""Simple alternatives to correlation on the same matches: each gives incidents to compare with ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from bench.accuracy_score import Found
from epicenter.rules.detect.signal import signal_of
from epicenter.rules.model.records import Match
from epicenter.rules.model.signals import ERRORS, SEVERITIES
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.ruleset import RuleSet

WINDOW_S: Final = 300.0


class ErrorLine(msgspec.Struct, frozen=True, order=True):
    """A line that reports a failure."""

    time_s: float
    severity: int
    failure_class: str
    node: str
    job: str


def error_lines(rules: RuleSet, matches: Iterable[Match]) -> list[ErrorLine]:
    """The matches that are errors or worse, in time order, each line and class once."""
    signals = (signal_of(rules, match) for match in matches)
    lines = {
        ErrorLine(
            signal.event_time_ns / NS_PER_S,
            SEVERITIES.index(signal.severity),
            signal.failure_class,
            signal.node,
            signal.job,
        )
        for signal in signals
        if signal.severity in ERRORS
    }
    return sorted(lines)


def earliest_error_line(lines: Sequence[ErrorLine]) -> list[Found]:
    """One incident for all; the first failure is the cause."""
    return [incident(lines)] if lines else []


def highest_severity(lines: Sequence[ErrorLine]) -> list[Found]:
    """One incident for all; the most severe line is the cause, of equal ones the first."""
    return [incident(sorted(lines, key=lambda line: (-line.severity, line)))] if lines else []


def by_job_in_5_minutes(lines: Sequence[ErrorLine]) -> list[Found]:
    """One incident for each job (for a line without one, its node) and window of five minutes from the first line."""
    groups: list[list[ErrorLine]] = []
    open_by_key: dict[tuple[str, str], list[ErrorLine]] = {}
    for line in lines:
        key = ("job", line.job) if line.job else ("node", line.node)
        group = open_by_key.get(key)
        if group is None or line.time_s - group[0].time_s > WINDOW_S:
            group = open_by_key[key] = []
            groups.append(group)
        group.append(line)
    return [incident(group) for group in groups]


def incident(ranked: Sequence[ErrorLine]) -> Found:
    """The lines as one incident, the likeliest cause first."""
    return Found(
        candidates=tuple(dict.fromkeys((line.failure_class, line.node) for line in ranked))[:3],
        jobs=frozenset(line.job for line in ranked if line.job),
        nodes=frozenset(line.node for line in ranked if line.node),
        onset_s=ranked[0].time_s,
        last_s=max(line.time_s for line in ranked),
    )


BASELINES: Final[dict[str, Callable[[Sequence[ErrorLine]], list[Found]]]] = {
    "earliest error line": earliest_error_line,
    "highest severity": highest_severity,
    "by job in 5 minutes": by_job_in_5_minutes,
}
