"""Which job a pod belongs to: from its own lines, or from the way controllers name pods."""

from __future__ import annotations

import re
from typing import Final

import msgspec

MAX_KEPT_PODS: Final = 50_000
MAX_KEPT_OF_NODE: Final = 32

_REPLICA = re.compile(r"-(?:worker|master|launcher|chief|ps|head|leader|server|node)(?:-[a-z0-9.-]+)?$")
_INDEX_AND_SUFFIX = re.compile(r"(?:-\d{1,5})?-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_INDEX = re.compile(r"(?:-\d{1,5})+$")
_OF_A_REPLICA = re.compile(
    r"(?:-(?:\d{1,5}|(?=[a-z]*\d)[a-z0-9]{5}|[bcdfghjklmnpqrstvwxz2456789]{5}|workers?|masters?|launcher|chief|ps|head"
    r"|leader|server|node|trainers?|replicas?|main|gpu))+$"
)


class Pods(msgspec.Struct):
    """Jobs and nodes by `cluster/pod`; the pod without lines for the longest time is forgotten first.

    `assigned` are the pods that the scheduler put on each `cluster/node`, the newest last; `assigned_nodes` the nodes
    of the pods of each `cluster/job`, by the job in their names.
    """

    job_by_pod: dict[str, str] = {}
    node_by_pod: dict[str, str] = {}
    assigned: dict[str, list[str]] = {}
    assigned_nodes: dict[str, list[str]] = {}

    def observe(self, cluster: str, pod: str, job: str, node: str = "") -> None:
        """Record the job of a pod, and its node if known."""
        key = f"{cluster}/{pod}"
        self.job_by_pod.pop(key, None)
        self.job_by_pod[key] = job
        if node:
            self.node_by_pod[key] = node
        if len(self.job_by_pod) > MAX_KEPT_PODS:
            oldest = next(iter(self.job_by_pod))
            del self.job_by_pod[oldest]
            self.node_by_pod.pop(oldest, None)

    def assign(self, cluster: str, pod: str, node: str) -> None:
        """Record where the scheduler put a pod, which may never log."""
        pods = self.assigned.setdefault(f"{cluster}/{node}", [])
        if pod not in pods:
            pods.append(pod)
            del pods[:-MAX_KEPT_OF_NODE]
        nodes = self.assigned_nodes.setdefault(f"{cluster}/{job_in_name(pod)}", [])
        if node not in nodes:
            nodes.append(node)
        for kept in (self.assigned, self.assigned_nodes):
            if len(kept) > MAX_KEPT_PODS:
                del kept[next(iter(kept))]

    def nodes_assigned_to(self, cluster: str, job: str) -> list[str]:
        """The nodes that the scheduler chose for the pods of a job."""
        return self.assigned_nodes.get(f"{cluster}/{job}", [])

    def assigned_to(self, cluster: str, node: str) -> list[str]:
        """The pods that the scheduler put on a node."""
        return self.assigned.get(f"{cluster}/{node}", [])

    def job_of(self, cluster: str, pod: str) -> str:
        """The job of a pod; empty if unknown."""
        return self.job_by_pod.get(f"{cluster}/{pod}", "")

    def node_of(self, cluster: str, pod: str) -> str:
        """The node of a pod; empty if unknown."""
        return self.node_by_pod.get(f"{cluster}/{pod}", "")


def job_in_name(pod: str) -> str:
    """The job that a pod's name holds.

    `J-worker-3` (Kubeflow, Volcano), `J-0-x7k2p` (indexed Job), `J-x7k2p` (Job; the suffix has no vowels and none of
    0, 1, 3: k8s.io/apimachinery util/rand), `J-0`, `J-0-3` (StatefulSet, LeaderWorkerSet).
    """
    for shape in (_REPLICA, _INDEX_AND_SUFFIX, _INDEX):
        if found := shape.search(pod):
            return pod[: found.start()]
    return pod


def ends_of_job_names(pod: str) -> list[int]:
    """Where the job's name in a pod's name may end: what follows says which replica the pod is (`-workers-0-x7k2p`)."""
    return [place for place, letter in enumerate(pod) if letter == "-" and _OF_A_REPLICA.match(pod, place)]
