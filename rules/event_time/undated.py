"""Lines of a recording that state no time: when their job failed tells when they were written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from epicenter.rules.model.records import LogEvent, Match
from epicenter.rules.model.signals import ENDS, ERRORS, Signal
from epicenter.rules.model.times import END_NS, NS_PER_S, is_known

AT_ONCE_NS: Final = 60 * NS_PER_S
"""A job whose process fails ends, or reports more failures, within this time."""

_ATTEMPT: Final = re.compile(r"/attempt_(\d{1,6})/")

Job = tuple[str, str]
JobNode = tuple[str, str, str]
EndedNs = Callable[[Match], int]
"""When the job ended whose process a match reports as ended; 0 if it reports none."""


class Undated(NamedTuple):
    """A match in a line without a time. Its event time is that of the line with one before it, `latest_ns` of the
    line with one after it.
    """

    match: Match
    latest_ns: int

    @property
    def is_uncertain(self) -> bool:
        """Whether it may be much later than the line with a time before it."""
        return self.latest_ns > self.match.event.event_time_ns + AT_ONCE_NS


class UndatedMatches:
    """The matches in lines without a time that wait until their time is certain, in the given list."""

    def __init__(self, waiting: list[Undated]):
        self._waiting = waiting

    @property
    def first_ns(self) -> int:
        """The earliest time that one of them may have; `END_NS` without any."""
        return min((undated.match.event.event_time_ns for undated in self._waiting), default=END_NS)

    def hold(self, match: Match, latest_ns: int) -> bool:
        """Hold a match back if it may be much later than its event time; whether it is."""
        undated = Undated(match, latest_ns)
        if undated.is_uncertain:
            self._waiting.append(undated)
        return undated.is_uncertain

    def release(self, signals: Callable[[], Iterable[Signal]], read_until_ns: int, ended_ns: EndedNs) -> list[Match]:
        """Remove and return those whose time is certain once everything up to then was read."""
        if not self._waiting:
            return []
        matches, self._waiting[:] = settled(self._waiting, signals(), read_until_ns, ended_ns)
        return matches


class _Failure(NamedTuple):
    event_time_ns: int
    onset_ns: int


def settled(
    undated: Iterable[Undated], signals: Iterable[Signal], read_until_ns: int, ended_ns: EndedNs = lambda match: 0
) -> tuple[list[Match], list[Undated]]:
    """The matches with a time that nothing read after `read_until_ns` changes, and those that still wait.

    A match has the time at which its job first failed, if that was between the two lines with times; the time of the
    second line, if it was soon after that. One with a failure of its job soon after the line before it keeps the time
    of that line. `signals` have times. One that ended its process, in a job without any failure that has a time, came
    when the job ended. One in a folder of torchrun's second attempt came after the first had ended on its node.
    """
    failures, ends_ns = _failures_and_ends(signals)
    matches: list[Match] = []
    waiting: list[Undated] = []

    @cache
    def failed_ns(whose: Job | JobNode, earliest_ns: int, latest_ns: int) -> int | None:
        return _failed_ns(failures[whose], ends_ns[whose], earliest_ns, latest_ns)

    for match, latest_ns in undated:
        event = match.event
        job, of_node = (event.cluster, event.job), (event.cluster, event.job, event.node)
        attempt_ns = _attempt_ns(event, ends_ns[of_node])
        whose, time_ns = (of_node if attempt_ns else job), max(event.event_time_ns, attempt_ns)
        at_once_ns = time_ns + AT_ONCE_NS
        if min(latest_ns + AT_ONCE_NS, END_NS) <= read_until_ns or (
            at_once_ns <= read_until_ns and _fails(failures[whose], time_ns, at_once_ns)
        ):
            ended = ended_ns(match) if latest_ns == END_NS and not failures[job] else 0
            dated_ns = failed_ns(whose, time_ns, latest_ns) or max(time_ns, ended)
            event = msgspec.structs.replace(event, event_time_ns=dated_ns)
            matches.append(msgspec.structs.replace(match, event=event))
        else:
            waiting.append(Undated(match, latest_ns))
    return matches, waiting


def _attempt_ns(event: LogEvent, ends_ns: Iterable[int]) -> int:
    """When the attempt in whose folder the line is can have failed: after the one before it; 0 for the first."""
    found = _ATTEMPT.search(event.log)
    attempt = int(found[1]) if found else 0
    ended_ns = [end_ns for before_ns, end_ns in pairwise((0, *ends_ns)) if end_ns - before_ns > AT_ONCE_NS]
    return ended_ns[attempt - 1] + AT_ONCE_NS if 0 < attempt <= len(ended_ns) else 0


def _failures_and_ends(
    signals: Iterable[Signal],
) -> tuple[dict[Job | JobNode, list[_Failure]], dict[Job | JobNode, list[int]]]:
    """The failures of each job, and of each job on each node, in order, and when a launcher reported that it failed."""
    failures: dict[Job | JobNode, list[_Failure]] = defaultdict(list)
    ends_ns: dict[Job | JobNode, list[int]] = defaultdict(list)
    for signal in sorted(signals, key=_event_time_ns):
        if signal.job and signal.severity in ERRORS:
            for whose in ((signal.cluster, signal.job), (signal.cluster, signal.job, signal.node)):
                failures[whose].append(_Failure(signal.event_time_ns, signal.onset_ns))
                if signal.failure_class in ENDS:
                    ends_ns[whose].append(signal.event_time_ns)
    return failures, ends_ns


def _failed_ns(failures: list[_Failure], ends_ns: list[int], earliest_ns: int, latest_ns: int) -> int | None:
    """When a job first failed between these times; the latest one if it failed soon after it. None if it did not, or if
    it failed soon after the earliest.
    """
    until_ns = latest_ns + AT_ONCE_NS
    between = [failure for failure in failures if earliest_ns < failure.event_time_ns <= until_ns]
    if not between or _fails(failures, earliest_ns, earliest_ns + AT_ONCE_NS):
        return None
    end_ns = next((time_ns for time_ns in ends_ns if earliest_ns < time_ns <= until_ns), between[0].event_time_ns)
    of_the_end = (failure.onset_ns for failure in between if abs(failure.event_time_ns - end_ns) <= AT_ONCE_NS)
    return min(latest_ns, max(earliest_ns, min(of_the_end)))


def _fails(failures: list[_Failure], earliest_ns: int, latest_ns: int) -> bool:
    first = bisect_right(failures, earliest_ns, key=_event_time_ns)
    return is_known(earliest_ns) and first < len(failures) and failures[first].event_time_ns <= latest_ns


def _event_time_ns(failure: Signal | _Failure) -> int:
    return failure.event_time_ns
