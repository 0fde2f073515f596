"""Checks of a job that still completes steps: slow steps, a rank that falls behind, nodes whose logs stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from epicenter.rules.liveness.slowness import (
    LASTING_NS,
    STILL_SLOW,
    ever_slow_ranks,
    explain,
    is_explained,
    slow_ranks,
    slow_since_ns,
    slowness_of,
    usual_pace_ns,
)
from epicenter.rules.liveness.state import JobWatch, SlowSteps, node_key
from epicenter.rules.liveness.streams import NodeStreams
from epicenter.rules.liveness.verdict import LAG_STEPS, SHIPPER_SILENT, STRAGGLER, Finding, laggard, who_of
from epicenter.rules.model.times import NS_PER_S

FALLS_TO_COUNT: Final = 3
"""A rank that falls further behind between this many checks is slow. After a pause, a fast clock looks so for less."""


def slow_steps(watch: JobWatch) -> Finding | None:
    """A straggler if the steps have become slow, until they are fast again; call it at each step.

    Slow steps that nothing explains need a person only once they have lasted: most jobs get over them.
    """
    before, watch.slow = watch.slow, _slow_now(watch)
    if watch.slow is None or watch.slow.is_reported or watch.lags:
        return None
    node, rank, why = _slow_place(watch)
    has_cause = bool(node) or rank is not None or is_explained(watch.progress, watch.slow.since_ns)
    needs_a_person = has_cause or watch.progress.reported_ns - watch.slow.since_ns >= LASTING_NS
    if before and not needs_a_person:
        return None
    watch.slow.is_reported = needs_a_person
    now_s, usual_s = watch.progress.span_paces_ns[-1] / NS_PER_S, watch.slow.usual_ns / NS_PER_S
    text = f"each step now takes {now_s:.1f} s instead of {usual_s:.1f} s; {why}"
    return Finding(STRAGGLER, node, rank, text, watch.slow.since_ns, may_pass=not needs_a_person)


def _slow_now(watch: JobWatch) -> SlowSteps | None:
    """The slow steps that continue or begin now."""
    slow, progress = watch.slow, watch.progress
    slowness = slowness_of(progress)
    if slow and (slowness or (progress.span_gaps_ns and progress.span_paces_ns[-1] >= STILL_SLOW * slow.usual_ns)):
        return slow
    return slowness and SlowSteps(usual_pace_ns(slowness, progress), slow_since_ns(slowness, progress))


def _slow_place(watch: JobWatch) -> tuple[str, int | None, str]:
    """Node and rank of what delays all, as far as ranks state how long they compute, and why."""
    slow = slow_ranks(watch)
    if not slow:
        return "", None, "no rank says that it is the cause"
    node, rank = slow[0].node, slow[0].rank if len(slow) == 1 else None
    return node, rank, f"{who_of(node, rank)} computes for {slow[0].slowdown:.1f} times as long as before, others don't"


def slow_computation(watch: JobWatch, now_ns: int) -> None:
    """Ranks of one node that compute for longer than before explain slow steps."""
    if slow_ranks(watch):
        explain(watch.progress, now_ns)


def slow_from_the_start(watch: JobWatch) -> Finding | None:
    """A straggler if ranks of one node have always computed for far longer than the others, which wait for them; once,
    until the steps are as fast as these allow.
    """
    slow, usual_ns = ([], 0) if watch.is_straggling or not watch.progress.span_paces_ns else ever_slow_ranks(watch)
    if not slow:
        return None
    now_ns, lost_ns = watch.progress.span_paces_ns[-1], slow[0].usual_compute_ns - usual_ns
    if now_ns < STILL_SLOW * (now_ns - lost_ns):
        return None
    watch.slow = SlowSteps(now_ns - lost_ns, watch.attempt_ns or watch.first_ns, is_reported=True)
    node, rank = slow[0].node, slow[0].rank if len(slow) == 1 else None
    times = slow[0].usual_compute_ns / usual_ns
    text = f"each step takes {now_ns / NS_PER_S:.1f} s; {who_of(node, rank)} computes for {times:.1f} times as long"
    return Finding(STRAGGLER, node, rank, f"{text} as most others, which wait for it", watch.slow.since_ns)


def falling_behind(watch: JobWatch, now_ns: int) -> Finding | None:
    """A straggler if one rank is further behind at each check; once, until it has caught up."""
    suspect, before = laggard(watch, now_ns), (watch.suspect, watch.suspect_step, watch.suspect_lag)
    member, last = watch.members.get(suspect), watch.progress.last_step
    step = member.step if member else 0
    lag = last - step if member and last is not None else 0
    watch.suspect, watch.suspect_step, watch.suspect_lag = suspect, step, lag
    watch.lags = bool(suspect) and watch.lags
    least_fall = LAG_STEPS * watch.progress.usual_stride
    falls_back = suspect == before[0] and step > before[1] and lag >= before[2] + least_fall
    watch.suspect_falls = watch.suspect_falls + 1 if falls_back else 0
    if not member or watch.suspect_falls < FALLS_TO_COUNT or watch.is_straggling:
        return None
    watch.lags = True
    who = who_of(member.node, member.rank)
    text = f"{who} is at step {member.step} and still advances, while the others are at step {last}"
    return Finding(STRAGGLER, member.node, member.rank, text, member.abreast_ns)


def lost_nodes(watch: JobWatch, streams: Mapping[str, NodeStreams], now_ns: int) -> Iterator[Finding]:
    """Nodes whose logs stopped while the job, which needs all its nodes, still completes steps; each once."""
    due_ns = watch.progress.stall_due_ns
    if due_ns is None or due_ns <= now_ns:
        return
    for node in sorted(watch.nodes):
        of_node = streams.get(node_key(watch.progress.cluster, node))
        if of_node is None or not of_node.is_lost(now_ns, len(watch.nodes)):
            watch.lost_nodes.discard(node)
        elif node not in watch.lost_nodes and of_node.last_ns(now_ns) < watch.progress.last_step_ns:
            watch.lost_nodes.add(node)
            text = f"no logs from {node}, while the job advanced to step {watch.progress.last_step}"
            yield Finding(SHIPPER_SILENT, node, None, text)
