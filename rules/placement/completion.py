"""Completes a signal from the placement: its rank from a GPU, its node from a rank, its job from a pod."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from epicenter.rules.model.signals import BLAMED_FIELD, EVENTS, PEER_FIELD, PEER_NODE_FIELD, POD_FIELD, Signal
from epicenter.rules.placement.hostlist import expand
from epicenter.rules.placement.placement import Placement
from epicenter.rules.placement.pods import job_in_name

NODE_ADDRESS_FIELD: Final = "node_ip"
"""The address of the node that a line is about; the line comes from another one."""

NODES_FIELD, TASKS_FIELD, NODE_FIELD = "nodes", "tasks", "node"
ACCUSED_FIELD: Final = "missing_ranks"
MAX_NODES: Final = 4096

_ACCUSING_CLASSES = ("heartbeat-timeout",)
_JAX_JOB = "/job:"
_JAX_TASK = re.compile(r"/job:\w{1,40}/replica:\d{1,6}/task:(\d{1,7})(?!\d)")
_ONE_TASK = re.compile(r"\d{1,7}")
_FORWARDED_BY_RAY = re.compile(r"\((?:[^\n()]{1,160}?\bpid=\d{1,10}|raylet), ip=([\da-f.:]{3,45})\) ")

_PORT = re.compile(r":\d{1,5}$")
_RAISED_IN_RAY = re.compile(r"\bray::[^\n]{1,160}? \(pid=\d{1,10}, ip=([\da-f.:]{3,45})")


def completed(signal: Signal, placement: Placement, pod: str = "") -> Signal:
    """The signal with its job, rank and node, as far as the placement has them; `pod` is the one that it is about.

    If a line names nodes in a list (`node[0001,0003]`), its node is the first of them. If a line without a rank names a
    single task of srun or JAX (`task:7`), that is its rank, unless launchers start the ranks.
    """
    is_about_another = not pod or signal.source == EVENTS
    pod = pod or signal.fields.get(POD_FIELD, "").rpartition("/")[2]
    job = signal.job or (pod and _job_of_pod(signal, pod, placement, is_about_another))
    if (job := placement.job_called(signal.cluster, job)) != signal.job:
        signal = msgspec.structs.replace(signal, job=job)
    node, rank = _named_node(signal, placement), signal.rank
    if pod and not node:
        node = placement.pods.node_of(signal.cluster, pod)
    if NODE_FIELD in signal.fields and node:
        node = placement.node_called(signal.cluster, node)
    if rank is None:
        rank = _named_rank(signal, placement)
    if not node and rank is not None and signal.job:
        node = placement.node_of(signal.cluster, signal.job, rank, signal.event_time_ns)
    if not node and signal.job:
        node = placement.only_listed_node(signal.cluster, signal.job, signal.event_time_ns)
    if rank is None and signal.gpu and node:
        rank = _rank_of_gpu(signal, node, placement)
    fields = signal.fields
    if signal.failure_class in _ACCUSING_CLASSES:
        fields = _fields_with_accused(signal, placement)
    if blamed := fields.get(BLAMED_FIELD):
        fields = _fields_with_blamed(fields, blamed, signal, placement)
    if peer := fields.get(PEER_FIELD):
        fields = _fields_with_peer(fields, peer, signal, placement)
    if node == signal.node and rank == signal.rank and fields is signal.fields:
        return signal
    return msgspec.structs.replace(signal, node=node, rank=rank, fields=fields)


def _job_of_pod(signal: Signal, pod: str, placement: Placement, is_about_another: bool) -> str:
    """The job of the pod; of one that a line from elsewhere is about, and that has no lines, the job in its name, if
    possible a known one.
    """
    job = placement.pods.job_of(signal.cluster, pod)
    if job or not is_about_another:
        return job
    return placement.job_named_in(signal.cluster, pod) or job_in_name(pod)


def nodes_of(signal: Signal) -> tuple[str, ...]:
    """Every node that the signal names, its own first."""
    own = (signal.node,) if signal.node else ()
    listed = _listed(signal)
    return (*own, *(node for node in listed if node != signal.node)) if listed else own


def is_named_by_slurm(signal: Signal) -> bool:
    """Whether a line of Slurm names the node, so that it may come from another one."""
    fields = signal.fields
    return bool(fields.get(NODES_FIELD) or (fields.get(TASKS_FIELD) and fields.get(NODE_FIELD)))


def _named_node(signal: Signal, placement: Placement) -> str:
    if listed := _listed(signal):
        return signal.fields.get(NODE_FIELD) or listed[0]
    if signal.fields.get(NODE_FIELD):
        return signal.node
    address = signal.fields.get(NODE_ADDRESS_FIELD) or _ray_address(signal)
    return placement.node_called(signal.cluster, address) if address else signal.node


def _ray_address(signal: Signal) -> str:
    """The address of the worker that wrote a line, or whose exception the driver prints; empty if there is none."""
    if "ip=" not in signal.text and not signal.block:
        return ""
    first_lines = (signal.text, *signal.block[:1])
    found = _FORWARDED_BY_RAY.match(signal.text) or next(filter(None, map(_RAISED_IN_RAY.search, first_lines)), None)
    return found[1] if found else ""


def _listed(signal: Signal) -> tuple[str, ...]:
    if not (text := signal.fields.get(NODES_FIELD, "")):
        return ()
    try:
        return expand(text.rstrip(".:;"))[:MAX_NODES]
    except ValueError:
        return ()


def _named_rank(signal: Signal, placement: Placement) -> int | None:
    tasks = signal.fields.get(TASKS_FIELD, "")
    if not tasks and _JAX_JOB not in signal.text:
        return None
    if _ONE_TASK.fullmatch(tasks):
        return int(tasks) if _is_rank(int(tasks), signal, placement) else None
    named = set(_jax_tasks(signal, tasks))
    return named.pop() if len(named) == 1 else None


def _is_rank(task: int, signal: Signal, placement: Placement) -> bool:
    """Whether a task of srun is the rank of this number, not a launcher that starts all ranks of its node."""
    if placement.is_of_launcher(signal.cluster, signal.job, task):
        return False
    node = placement.node_of(signal.cluster, signal.job, task, signal.event_time_ns)
    return node in ("", signal.node) or not signal.node


def _jax_tasks(signal: Signal, tasks: str) -> Iterator[int]:
    yield from map(int, _JAX_TASK.findall(tasks or signal.text))


def _fields_with_accused(signal: Signal, placement: Placement) -> dict[str, str]:
    """The fields, and whom JAX's coordination service declares dead: its report names tasks line by line.

    Of a single one, the node too, where it is known.
    """
    accused = {int(task) for line in (signal.text, *signal.block) for task in _JAX_TASK.findall(line)}
    if not accused:
        return signal.fields
    place = (signal.cluster, signal.job, min(accused), signal.event_time_ns)
    node = placement.node_of_process(*place) if len(accused) == 1 else ""
    named = {ACCUSED_FIELD: ", ".join(map(str, sorted(accused)))}
    return signal.fields | named | ({PEER_NODE_FIELD: node} if node else {})


def _fields_with_blamed(fields: dict[str, str], blamed: str, signal: Signal, placement: Placement) -> dict[str, str]:
    """The fields, and the node of the rank that the line blames, if that is known and another one."""
    if not _ONE_TASK.fullmatch(blamed):
        return fields
    node = placement.node_of(signal.cluster, signal.job, int(blamed), signal.event_time_ns)
    return fields | {PEER_NODE_FIELD: node} if node not in ("", signal.node) else fields


def _fields_with_peer(fields: dict[str, str], peer: str, signal: Signal, placement: Placement) -> dict[str, str]:
    """The fields, and which node the other end of a connection is: by its address, or by its name."""
    names = (peer, _PORT.sub("", peer), peer.partition(".")[0])
    addresses = (placement.node_by_address.get(f"{signal.cluster}/{name}", "") for name in names)
    nodes = placement.nodes_of(signal.cluster, signal.job, signal.event_time_ns)
    node = next(filter(None, addresses), "") or next((name for name in names if name in nodes), "")
    return fields | {PEER_NODE_FIELD: node} if node else fields


def _rank_of_gpu(signal: Signal, node: str, placement: Placement) -> int | None:
    """The rank that has this GPU, if the banners of exactly one job assign it."""
    jobs = {signal.job} if signal.job else placement.jobs_on(signal.cluster, node, signal.event_time_ns)
    found = (placement.rank_of(signal.cluster, job, node, signal.event_time_ns, signal.gpu) for job in sorted(jobs))
    ranks = [rank for rank in found if rank is not None]
    return ranks[0] if len(ranks) == 1 else None
