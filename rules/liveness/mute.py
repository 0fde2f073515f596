"""Nodes whose logs stopped while their job trained on: the job needs all its nodes, so only the lines are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from epicenter.rules.liveness.state import JobWatch, node_key
from epicenter.rules.liveness.streams import BUCKET_NS, NodeStreams

REPORTS_TO_COUNT: Final = 3
STEPS_WITHOUT: Final = 3
"""A job that completes this many more steps than a node reports still has that node."""

MUTE_CHANCE: Final = 0.05
"""Pauses of a node's streams before the job's last step that are less likely than this are a dead shipper's."""


def mute_nodes(watch: JobWatch, streams: Mapping[str, NodeStreams]) -> frozenset[str]:
    """The nodes of the job without lines since well before its last step."""
    last_ns = watch.progress.last_step_ns
    quiet = {
        node: of_node
        for node in watch.nodes
        if (of_node := streams.get(node_key(watch.progress.cluster, node))) and _is_quiet(of_node, last_ns)
    }
    missed = _without_newest_steps(watch) if quiet else set[str]()
    nodes = len(watch.nodes)
    return frozenset(node for node, of_node in quiet.items() if node in missed or _is_lost(of_node, last_ns, nodes))


def _is_quiet(of_node: NodeStreams, last_step_ns: int) -> bool:
    """Whether its workers had no line in a whole bucket before the job's last step, nor later."""
    newest = of_node.worker.newest
    return bool(newest) and newest[-1] < last_step_ns // BUCKET_NS


def _without_newest_steps(watch: JobWatch) -> set[str]:
    """The nodes that reported steps, but none of the newest."""
    newest_by_node: dict[str, int] = {}
    for member in watch.members.values():
        if member.reports >= REPORTS_TO_COUNT:
            newest_by_node[member.node] = max(member.step, newest_by_node.get(member.node, 0))
    at_most = watch.progress.written_last_step - STEPS_WITHOUT * watch.progress.usual_stride
    return {node for node, step in newest_by_node.items() if step <= at_most}


def _is_lost(of_node: NodeStreams, last_step_ns: int, nodes: int) -> bool:
    """Whether its workers' lines are overdue, or its kernel's had stopped too and chance explains neither."""
    kernel, worker = of_node.kernel, of_node.worker
    if worker.is_overdue(last_step_ns, nodes):
        return True
    of_kernel, of_worker = kernel.chance_of_pause(last_step_ns), worker.chance_of_pause(last_step_ns)
    return of_kernel < 1 and of_kernel * of_worker <= MUTE_CHANCE
