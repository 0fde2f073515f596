"""Checks of a job that still makes steps: slow steps, a rank that falls behind, nodes whose logs stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from epicenter.rules.liveness.state import JobWatch, node_key
from epicenter.rules.liveness.streams import NodeStreams
from epicenter.rules.liveness.verdict import SHIPPER_SILENT, STRAGGLER, Finding, laggard
from epicenter.rules.model.times import NS_PER_S


def slow_steps(watch: JobWatch) -> Finding | None:
    """Called at each step: a straggler when the steps have become slow; once, until they are fast again."""
    was_straggling, is_slow = watch.is_straggling, watch.progress.is_slow
    watch.is_straggling = is_slow or bool(watch.suspect and was_straggling)
    if was_straggling or not watch.is_straggling:
        return None
    paces = sorted(watch.progress.paces_ns[:-10])
    before_s, now_s = paces[len(paces) // 2] / NS_PER_S, watch.progress.paces_ns[-1] / NS_PER_S
    text = f"every step takes {now_s:.1f} s, before it took {before_s:.1f} s; one slow rank holds all"
    return Finding(STRAGGLER, text=text, onset_ns=watch.progress.slow_since_ns)


def falling_behind(watch: JobWatch, now_ns: int) -> Finding | None:
    """A straggler when one rank is further behind than at the last check; once, until it has caught up."""
    suspect, before = laggard(watch, now_ns), watch.suspect
    step_before, step = watch.suspect_step, watch.members[suspect].step if suspect else -1
    lag_before, lag = watch.suspect_lag, watch.progress.last_step - step
    watch.suspect, watch.suspect_step, watch.suspect_lag = suspect, step, lag
    watch.is_straggling = watch.progress.is_slow or bool(suspect and watch.is_straggling)
    falls_back = suspect == before and step > step_before and lag > lag_before
    if not suspect or not falls_back or watch.is_straggling:
        return None
    watch.is_straggling = True
    member = watch.members[suspect]
    who = f"rank {member.rank} on {member.node}" if member.rank is not None else member.node
    text = f"{who} is at step {member.step} and goes on, the others are at step {watch.progress.last_step}"
    return Finding(STRAGGLER, member.node, member.rank, text, member.abreast_ns)


def lost_nodes(watch: JobWatch, streams: Mapping[str, NodeStreams], now_ns: int) -> Iterator[Finding]:
    """Nodes whose logs stopped while the job, which needs all its nodes, makes steps; each once."""
    due_ns = watch.progress.stall_due_ns
    if due_ns is None or due_ns <= now_ns:
        return
    for node in sorted(watch.nodes):
        of_node = streams.get(node_key(watch.progress.cluster, node))
        if of_node is None or not of_node.is_lost(now_ns, len(watch.nodes)):
            watch.lost_nodes.discard(node)
        elif node not in watch.lost_nodes and of_node.last_ns(now_ns) < watch.progress.last_step_ns:
            watch.lost_nodes.add(node)
            text = f"nothing comes from {node}, while the job got to step {watch.progress.last_step}"
            yield Finding(SHIPPER_SILENT, node, None, text)
