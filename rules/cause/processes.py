"""Whose process or pod a line is about: one of a job's, or one that only shares the node."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from epicenter.rules.cause.scope import JobsOf
from epicenter.rules.model.signals import ERRORS, POD_FIELD, SEVERITIES, Signal
from epicenter.rules.packs.vocabulary import vocabulary

PidsOf = Callable[[str, str, str], Collection[int]]
"""The process ids that a job's ranks on a node printed, by cluster, job and node."""

RanksOn = Callable[[str, str, str], int]
"""How many ranks of a job run on a node, by cluster, job and node; 0 if unknown."""

HasLogged = Callable[[str, str], bool]
"""Whether lines of a job have come, by cluster and job."""

_SOURCES: Final = ("kernel", "kubernetes", "scheduler")
"""Sources whose lines name processes, pods or jobs, not only those whose logs are read."""

_NAMESPACE_FIELD = "namespace"
_OF_SLURM: Final = "slurm-"
_INFRASTRUCTURE: Final = re.compile(
    r"(?:kube-(?:system|public|node-lease)|default-system|.*-system|.*-operator|monitoring|logging|observability"
    r"|prometheus|grafana|loki|datadog|cert-manager|ingress(?:-\w+)?|argocd|flux|gatekeeper)$"
)
"""Namespaces whose pods serve the cluster, and are no jobs."""

FOREIGN_SEVERITY: Final = "warning"
"""The most severe that the failure of a process outside the jobs can be: it opens no incident."""

MIN_HOST_PID: Final = 5000
"""Ranks with lower process ids are assumed to run in a separate process namespace: the kernel counts differently."""

_OF_TRAINING: Final = re.compile(
    r"(?i)(?:python|pt_|torch|ray(?:\b|::|let)|gcs_server|train|pretrain|finetune|deepspeed|accelerate|megatron|nemo|jax|vllm|sglang"
    r"|trtllm|tritonserver|mpi|orted|prted|hydra|srun|slurmstepd|nccl|all_reduce|model|worker|java|julia|horovod)"
)
_OF_THE_NODE: Final = re.compile(
    r"(?:kworker|jbd2|xfs|kswapd|khugepaged|kcompactd|nfs|rpc|ll_|ldlm|ptlrpc|md\d|dm|txg|z_|irq/|rcu|ksoftirqd|mlx5|ib_"
    r"|nv|dcgm|flush|writeback|ceph|beegfs|mount|systemd|containerd|dockerd|kubelet|slurm)"
)
"""Programs that hang where the node itself has trouble: threads of the kernel, and those that run the node."""

_SESSION: Final = "/user.slice/"
"""The cgroup of what people start in a shell on the node."""

_SLURM_JOB: Final = re.compile(r"/job_(\d{1,10})(?:/|$)")
_ARRAY_TASK: Final = re.compile(r"\d{1,10}_\d{1,6}")
"""Its files have this name; its cgroup has a separate job id (Slurm, job_array.html)."""


def may_be_foreign(signal: Signal) -> bool:
    """Whether the line may be about a process, pod or job that is none of those whose logs are read."""
    if signal.failure_class not in vocabulary().of_process:
        return False
    is_reported = signal.source in _SOURCES or POD_FIELD in signal.fields or signal.failure_class.startswith(_OF_SLURM)
    return signal.source == "kernel" or (is_reported and not signal.log)


def serves_the_cluster(signal: Signal) -> bool:
    """Whether it is about a pod in a namespace of the cluster's own services."""
    return _NAMESPACE_FIELD in signal.fields and bool(_INFRASTRUCTURE.match(signal.fields[_NAMESPACE_FIELD]))


def with_owner(signal: Signal, jobs_of: JobsOf, pids_of: PidsOf, ranks_on: RanksOn, has_logged: HasLogged) -> Signal:
    """The signal, which may be foreign; if it is, marked so and at most a warning."""
    if signal.job and (signal.source != "kernel" or POD_FIELD in signal.fields):
        is_foreign = not has_logged(signal.cluster, signal.job)
    else:
        is_foreign = signal.source == "kernel" and _is_foreign(signal, jobs_of(signal), pids_of, ranks_on)
    return foreign(signal) if is_foreign else signal


def is_of_training(signal: Signal) -> bool:
    """Whether the kernel reports the failure of a process that is one of training by its name."""
    is_of_process = signal.source == "kernel" and signal.failure_class in vocabulary().of_process
    return is_of_process and signal.severity in ERRORS and bool(_OF_TRAINING.match(signal.fields.get("comm", "")))


def foreign(signal: Signal) -> Signal:
    """The signal, as one about something that is none of the jobs."""
    severity = min(signal.severity, FOREIGN_SEVERITY, key=SEVERITIES.index)
    return msgspec.structs.replace(signal, severity=severity, is_foreign=True)


def _is_foreign(signal: Signal, jobs: Collection[str], pids_of: PidsOf, ranks_on: RanksOn) -> bool:
    """Whether its cgroup is another job's or a session where Slurm runs jobs, or neither its name nor its process id is
    known of a job. An unknown process id says nothing where only some of a node's ranks printed theirs.
    """
    comm = signal.fields.get("comm", "")
    if not comm or (signal.failure_class == "hung-task" and _OF_THE_NODE.match(comm)):
        return False
    cgroup = signal.fields.get("cgroup", "")
    owner = _SLURM_JOB.search(cgroup)
    if owner and jobs and (owner[1] in jobs or not any(map(_ARRAY_TASK.fullmatch, jobs))):
        return owner[1] not in jobs
    pids = {pid for job in jobs for pid in pids_of(signal.cluster, job, signal.node)}
    if _pid(signal) in pids:
        return False
    if cgroup.startswith(_SESSION) and any(job[:1].isdigit() for job in jobs):
        return True
    are_all = len(pids) >= sum(ranks_on(signal.cluster, job, signal.node) for job in jobs)
    return not _OF_TRAINING.match(comm) or (are_all and _holds_a_gpu(signal) and min(pids, default=0) >= MIN_HOST_PID)


def _holds_a_gpu(signal: Signal) -> bool:
    """Whether its process is the rank itself: only that has a context on the GPU, and no child of it."""
    return signal.failure_class.startswith("xid-")


def _pid(signal: Signal) -> int:
    pid = signal.fields.get("pid", "")
    return int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 9 else -1
