"""Which job a pod belongs to: from its own lines, or from the way controllers name pods."""

from __future__ import annotations

import re
from typing import Final

import msgspec

MAX_KEPT_PODS: Final = 50_000

_SLICE = re.compile(r"-slice-job-\d{1,5}-\d{1,5}-[a-z0-9]{5}$")
_REPLICA = re.compile(r"-(?:worker|master|launcher|chief|ps|head|leader|server|node)(?:-[a-z0-9.-]+)?$")
_INDEX_AND_SUFFIX = re.compile(r"(?:-\d{1,5}-(?=[a-z]*\d)[a-z0-9]{5}|(?:-\d{1,5})?-[bcdfghjklmnpqrstvwxz2456789]{5})$")
_INDEX = re.compile(r"(?:-\d{1,5})+$")
_OF_A_REPLICA = re.compile(
    r"(?:-(?:\d{1,5}|(?=[a-z]*\d)[a-z0-9]{5}|[bcdfghjklmnpqrstvwxz2456789]{5}|workers?|masters?|launcher|chief|ps|head"
    r"|leader|server|node|trainers?|replicas?|main|gpu))+$"
)


class Pods(msgspec.Struct):
    """Jobs and nodes by `cluster/pod`; the pod without lines for the longest time is forgotten first.

    `assigned_node_by_pod` is where the scheduler put pods, which may never log. `job_by_name` has the jobs that have
    another name than their pods, by `cluster/name`, and `name_by_job` is the reverse.
    """

    job_by_pod: dict[str, str] = {}
    job_by_name: dict[str, str] = {}
    name_by_job: dict[str, str] = {}
    node_by_pod: dict[str, str] = {}
    assigned_node_by_pod: dict[str, str] = {}

    def observe(self, cluster: str, pod: str, job: str, node: str = "") -> None:
        """Record the job of a pod, and its node if known."""
        key = f"{cluster}/{pod}"
        self.job_by_pod.pop(key, None)
        self.job_by_pod[key] = job
        if node:
            self.node_by_pod[key] = node
        if job and (name := job_in_name(pod)) != job:
            self._name(cluster, name, job)
        if len(self.job_by_pod) > MAX_KEPT_PODS:
            oldest = next(iter(self.job_by_pod))
            del self.job_by_pod[oldest]
            self.node_by_pod.pop(oldest, None)

    def assign(self, cluster: str, pod: str, node: str) -> None:
        """Record where the scheduler put a pod."""
        self.assigned_node_by_pod[f"{cluster}/{pod}"] = node
        if len(self.assigned_node_by_pod) > MAX_KEPT_PODS:
            del self.assigned_node_by_pod[next(iter(self.assigned_node_by_pod))]

    def nodes_assigned_to(self, cluster: str, job: str) -> list[str]:
        """The nodes that the scheduler chose for the pods that are a job's replicas by their names."""
        start = f"{cluster}/{job}-"
        assigned = ((key, node) for key, node in self.assigned_node_by_pod.items() if key.startswith(start))
        return [node for key, node in assigned if len(job) in ends_of_job_names(key.removeprefix(f"{cluster}/"))]

    def job_of(self, cluster: str, pod: str) -> str:
        """The job of a pod; empty if unknown."""
        return self.job_by_pod.get(f"{cluster}/{pod}", "")

    def names_of(self, cluster: str, name: str) -> tuple[str, str]:
        """Both names of a job by one of them: that of its pods, and that of their labels or lines; often the same."""
        key = f"{cluster}/{name}"
        if job := self.job_by_name.get(key):
            return name, job
        return self.name_by_job.get(key, name), name

    def node_of(self, cluster: str, pod: str) -> str:
        """The node of a pod; empty if unknown."""
        return self.node_by_pod.get(f"{cluster}/{pod}", "")

    def _name(self, cluster: str, name: str, job: str) -> None:
        for known, key, value in ((self.job_by_name, name, job), (self.name_by_job, job, name)):
            known.pop(f"{cluster}/{key}", None)
            known[f"{cluster}/{key}"] = value
            if len(known) > MAX_KEPT_PODS:
                del known[next(iter(known))]


def job_in_name(pod: str) -> str:
    """The job that a pod's name holds.

    `J-worker-3` (Kubeflow, Volcano), `J-slice-job-0-3-x7k2p` (XPK's JobSet), `J-0-x7k2p` (indexed Job), `J-x7k2p` (Job;
    the suffix has no vowels and none of 0, 1, 3: k8s.io/apimachinery util/rand), `J-0`, `J-0-3` (StatefulSet,
    LeaderWorkerSet). Behind an index, controllers other than Kubernetes' own take any letters and digits: `J-0-3e0a1`.
    """
    for shape in (_SLICE, _REPLICA, _INDEX_AND_SUFFIX, _INDEX):
        if found := shape.search(pod):
            return pod[: found.start()]
    return pod


def ends_of_job_names(pod: str) -> list[int]:
    """Where the job's name in a pod's name may end: what follows says which replica the pod is (`-workers-0-x7k2p`)."""
    return [place for place, letter in enumerate(pod) if letter == "-" and _OF_A_REPLICA.match(pod, place)]
