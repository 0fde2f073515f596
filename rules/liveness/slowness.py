"""Whether the newest steps of a job took well longer than the ones before, and since when. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, takewhile
from statistics import fmean
from typing import Final, NamedTuple

from epicenter.rules.liveness.progress import PACES_TO_TRUST, JobProgress, median
from epicenter.rules.liveness.state import JobWatch, Member
from epicenter.rules.model.times import NS_PER_S

SLOW_NS: Final = 120 * NS_PER_S


class Slowness(NamedTuple):
    """How slow steps are, in so many spans (of 5 s, or a report each) and for so long, if they are slow."""

    times: float
    reports: int
    length_ns: int


UNEXPLAINED: Final = (
    Slowness(2.0, 10, SLOW_NS),
    Slowness(2.0, 5, 600 * NS_PER_S),
    Slowness(1.5, 10, 600 * NS_PER_S),
)
EXPLAINED: Final = (Slowness(1.4, 5, SLOW_NS),)
EXPLAINED_COUNT: Final = (Slowness(2.0, 5, SLOW_NS),)
"""Of progress without step numbers, which lost lines make look slow too: only with a line that explains slow steps."""

EXPLAINS_NS: Final = 360 * NS_PER_S
"""Steps that become slow this long after a line that explains it, such as a throttled processor, need be less slow. The
kernel reports a throttled processor again every five minutes.
"""

SLOWED_FOR_NS: Final = 1800 * NS_PER_S
"""Lines that explain slow steps are one explanation if they come this soon after each other."""

RECOVERING: Final = 0.8
"""Steps that take this part of the time that they took minutes ago become faster again."""

STILL_SLOW: Final = 1.3
"""Steps that became slow are still slow while the newest take this many times as long as usual."""

LASTING_NS: Final = 1800 * NS_PER_S
"""Slow steps whose cause is not known need a person once they have lasted for this long."""

SLOW_COMPUTE_TIMES: Final = 1.25
"""A rank that computes this much longer than at best, while most others don't, slows down all."""

EVER_SLOW_TIMES: Final = 2
"""A rank that computes this many times as long as most slows down all from the start: stages of a pipeline differ less.
"""


def slow_ranks(watch: JobWatch) -> list[Member]:
    """The ranks of one node, or one of an unknown node, that compute for longer than at best while most ranks don't,
    the slowest first.
    """
    timed = [member for member in watch.members.values() if member.slowdown]
    slow = [member for member in timed if member.slowdown >= SLOW_COMPUTE_TIMES]
    slow.sort(key=lambda member: (-member.slowdown, member.rank or 0))
    return slow if _are_of_one_place(slow, len(timed)) else []


def ever_slow_ranks(watch: JobWatch) -> tuple[list[Member], int]:
    """The ranks of one node, or one of an unknown node, that compute for far longer than most, the slowest first, and
    how long most compute for a step.
    """
    timed = [member for member in watch.members.values() if member.usual_compute_ns]
    usual_ns = median([member.usual_compute_ns for member in timed])
    slow = [member for member in timed if member.usual_compute_ns >= EVER_SLOW_TIMES * usual_ns]
    slow.sort(key=lambda member: (-member.usual_compute_ns, member.rank or 0))
    return (slow if _are_of_one_place(slow, len(timed)) else []), usual_ns


def _are_of_one_place(slow: Sequence[Member], timed: int) -> bool:
    nodes = {member.node for member in slow}
    is_one_place = len(slow) == 1 or (len(nodes) == 1 and "" not in nodes)
    return is_one_place and 2 * len(slow) < timed


def explain(progress: JobProgress, time_ns: int) -> None:
    """Record that a line explains slow steps."""
    if time_ns > progress.slowed_ns + SLOWED_FOR_NS:
        progress.slowed_since_ns = time_ns
    progress.slowed_ns = max(time_ns, progress.slowed_ns)


def is_explained(progress: JobProgress, since_ns: int) -> bool:
    """Whether a line explains steps that have been slow since then."""
    return progress.slowed_ns > since_ns - EXPLAINS_NS


def slowness_of(progress: JobProgress) -> Slowness | None:
    """How slow all its newest steps are, over minutes, compared with those before; None if they are as usual, or
    become faster again, as after a start.
    """
    if len(progress.span_paces_ns) < PACES_TO_TRUST or progress.is_of_a_server:
        return None
    for kind in EXPLAINED_COUNT if progress.is_counted else EXPLAINED:
        if progress.slowed_ns and _is_slow_as(kind, progress) and is_explained(progress, slow_since_ns(kind, progress)):
            return kind
    kinds = () if progress.is_counted else UNEXPLAINED
    return next((kind for kind in kinds if _is_slow_as(kind, progress)), None)


def usual_pace_ns(kind: Slowness, progress: JobProgress) -> int:
    """The median time per step before it was slow."""
    return median(progress.span_paces_ns[: -_reports(kind, progress)])


def slow_since_ns(kind: Slowness, progress: JobProgress) -> int:
    """When the newest run of slow steps began; soon after that a line may explain it."""
    least_ns = kind.times * usual_pace_ns(kind, progress)
    slow = list(takewhile(lambda pace_ns: pace_ns >= least_ns, reversed(progress.span_paces_ns)))
    since_ns = progress.reported_ns - progress.open_gap_ns - progress.open_span_ns
    since_ns -= sum(progress.span_gaps_ns[-len(slow) :]) if slow else 0
    explained_ns = progress.slowed_since_ns
    return explained_ns if since_ns < explained_ns <= since_ns + SLOW_NS else since_ns


def _is_slow_as(kind: Slowness, progress: JobProgress) -> bool:
    paces_ns = progress.span_paces_ns
    if paces_ns[-1] < kind.times * min(paces_ns):
        return False
    reports = _reports(kind, progress)
    newest, before = paces_ns[-reports:], paces_ns[:-reports]
    gaps_ns = progress.span_gaps_ns[-reports:]
    if len(gaps_ns) < reports or sum(gaps_ns) < kind.length_ns or len(before) < PACES_TO_TRUST:
        return False
    thirds = [fmean(newest[part * reports // 3 : (part + 1) * reports // 3]) for part in range(3)]
    return min(thirds) >= kind.times * median(before) and thirds[2] >= RECOVERING * thirds[0]


def _reports(kind: Slowness, progress: JobProgress) -> int:
    """The newest reports that last for as long; at least as many as the kind needs."""
    spans_ns = accumulate(reversed(progress.span_gaps_ns))
    return max(kind.reports, 1 + sum(1 for _ in takewhile(lambda span_ns: span_ns < kind.length_ns, spans_ns)))
