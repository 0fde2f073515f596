"""Whether the newest steps of a job took well longer than the ones before, and since when. Pure."""

from __future__ import annotations

from itertools import accumulate, takewhile
from statistics import fmean
from typing import Final

from epicenter.rules.liveness.progress import PACES_TO_TRUST, JobProgress, median
from epicenter.rules.liveness.state import JobWatch, Member
from epicenter.rules.model.times import NS_PER_S

SLOW_REPORTS: Final = 10
SLOW_NS: Final = 120 * NS_PER_S
SLOW_TIMES: Final = 2.0
EXPLAINED_SLOW_REPORTS: Final = 5
EXPLAINED_SLOW_TIMES: Final = 1.4
SLOWED_FOR_NS: Final = 1800 * NS_PER_S
"""For this long after a line that explains slow steps, such as a throttled processor, less slowness is enough."""


SLOW_COMPUTE_TIMES: Final = 1.25
"""A rank that computes this much longer than at best, while most others don't, slows down all."""


def slow_ranks(watch: JobWatch) -> list[Member]:
    """The ranks of one node that now compute for longer than at best while most ranks don't, the slowest first."""
    timed = [member for member in watch.members.values() if member.slowdown]
    slow = [member for member in timed if member.slowdown >= SLOW_COMPUTE_TIMES]
    is_one_place = len({member.node for member in slow}) == 1 and 2 * len(slow) < len(timed)
    return sorted(slow, key=lambda member: (-member.slowdown, member.rank or 0)) if is_one_place else []


def explain(progress: JobProgress, time_ns: int) -> None:
    """Record that a line explains slow steps."""
    if time_ns > progress.slowed_ns + SLOWED_FOR_NS:
        progress.slowed_since_ns = time_ns
    progress.slowed_ns = max(time_ns, progress.slowed_ns)


def is_slow(progress: JobProgress) -> bool:
    """Whether all its newest steps, over minutes, took well longer than before."""
    paces_ns, times = progress.paces_ns, _slow_times(progress)
    if len(paces_ns) < PACES_TO_TRUST or paces_ns[-1] < times * min(paces_ns):
        return False
    reports = _reports_to_be_slow(progress)
    newest, before = paces_ns[-reports:], paces_ns[:-reports]
    if sum(progress.gaps_ns[-reports:]) < SLOW_NS or len(before) < PACES_TO_TRUST:
        return False
    thirds = (newest[part * reports // 3 : (part + 1) * reports // 3] for part in range(3))
    is_even = min(map(fmean, thirds)) >= times * median(before)
    return is_even and (_is_explained(progress) or not progress.is_counted)


def usual_pace_ns(progress: JobProgress) -> int:
    """The median time per step before the newest minutes."""
    return median(progress.paces_ns[: -_reports_to_be_slow(progress)])


def slow_since_ns(progress: JobProgress) -> int:
    """When the newest run of slow steps began; soon after that a line may explain it."""
    least_ns = _slow_times(progress) * usual_pace_ns(progress)
    slow = list(takewhile(lambda pace_ns: pace_ns >= least_ns, reversed(progress.paces_ns)))
    since_ns = progress.reported_ns - sum(progress.gaps_ns[-len(slow) :]) if slow else progress.reported_ns
    explained_ns = progress.slowed_since_ns
    return explained_ns if since_ns < explained_ns <= since_ns + SLOW_NS else since_ns


def _is_explained(progress: JobProgress) -> bool:
    return progress.slowed_ns > progress.reported_ns - SLOWED_FOR_NS


def _slow_times(progress: JobProgress) -> float:
    """How slow is slow. Lost lines make progress without step numbers look slow too."""
    return EXPLAINED_SLOW_TIMES if _is_explained(progress) and not progress.is_counted else SLOW_TIMES


def _reports_to_be_slow(progress: JobProgress) -> int:
    """The newest reports that last for minutes; enough of them where no line explains slow steps."""
    spans_ns = accumulate(reversed(progress.gaps_ns))
    reports = 1 + sum(1 for _ in takewhile(lambda span_ns: span_ns < SLOW_NS, spans_ns))
    return max(reports, EXPLAINED_SLOW_REPORTS if _is_explained(progress) else SLOW_REPORTS)
