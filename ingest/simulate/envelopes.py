"""What shippers put around a line: Vector, Fluent Bit, journald, kmsg, rsyslog, srun.

Sources: Vector's `kubernetes_logs`, `journald` and `kubernetes_events`, Fluent Bit's `tail` with the kubernetes filter
and its `kmsg` input behind `record_modifier`, `journalctl -o json`, rsyslog's RFC 3339 format, `srun --label`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import msgspec

from epicenter.ingest.simulate.headers import rfc3339_ns, rfc3339_us
from epicenter.ingest.simulate.model import US, Job, Node
from epicenter.rules.model.times import NS_PER_S

_CONTAINERS = {"megatron": "pytorch", "maxtext": "maxtext", "hf": "pytorch", "ray": "ray-head"}
_AT_ERROR = ("error", "Error", "Out of memory", "panic", "blocked for", "SXid", "Fatal", "failed")


def as_json(record: dict[str, Any]) -> str:
    """The record on one line."""
    return msgspec.json.encode(record).decode()


# ---- kernel ----------------------------------------------------------------------------------------------------------


def kernel_path(node: Node) -> str:
    """The file that a node's kernel log comes out in."""
    name = {"rsyslog": "kern.log", "vector": "journald.jsonl", "journal": "journal.jsonl", "kmsg": "kmsg.jsonl"}
    return f"{node.name}/{name[node.kernel_shipper]}"


def kernel_line(node: Node, clock_ns: int, text: str, uptime_ns: int) -> str:
    """One kernel line as the node's shipper sends it; `clock_ns` is when its reader saw it."""
    if node.kernel_shipper == "rsyslog":
        uptime_us = uptime_ns // US
        stamp = f"[{uptime_us // 1_000_000:5d}.{uptime_us % 1_000_000:06d}]"
        return f"{rfc3339_us(clock_ns)} {node.name} kernel: {stamp} {text}"
    node.kernel_sequence += 1
    records = {"vector": _vector_journald, "journal": _journal, "kmsg": _kmsg}
    return as_json(records[node.kernel_shipper](node, clock_ns, text, uptime_ns))


def _level(text: str) -> int:
    if text.startswith("NVRM"):
        return 4
    return 3 if any(word in text for word in _AT_ERROR) else 6


def _boot_id(node: Node) -> str:
    return uuid5(NAMESPACE_DNS, f"{node.name}/{node.booted_ns}").hex


def _journal(node: Node, clock_ns: int, text: str, uptime_ns: int) -> dict[str, Any]:
    return {
        "__CURSOR": f"s={uuid5(NAMESPACE_DNS, node.name).hex};i={node.kernel_sequence:x};b={_boot_id(node)}",
        "__REALTIME_TIMESTAMP": str(clock_ns // US),
        "__MONOTONIC_TIMESTAMP": str(uptime_ns // US),
        "_BOOT_ID": _boot_id(node),
        "_MACHINE_ID": uuid5(NAMESPACE_DNS, node.name).hex,
        "_HOSTNAME": node.name,
        "_TRANSPORT": "kernel",
        "_SOURCE_MONOTONIC_TIMESTAMP": str(uptime_ns // US),
        "PRIORITY": str(_level(text)),
        "SYSLOG_FACILITY": "0",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": text,
    }


def _vector_journald(node: Node, clock_ns: int, text: str, uptime_ns: int) -> dict[str, Any]:
    record = _journal(node, clock_ns, text, uptime_ns)
    del record["MESSAGE"], record["_HOSTNAME"]
    stamp = f"{rfc3339_us(clock_ns)[:-6]}Z"
    return {**record, "host": node.name, "message": text, "source_type": "journald", "timestamp": stamp}


def _kmsg(node: Node, clock_ns: int, text: str, uptime_ns: int) -> dict[str, Any]:
    return {
        "@timestamp": clock_ns // US / 1e6,
        "priority": _level(text),
        "sequence": node.kernel_sequence,
        "sec": uptime_ns // NS_PER_S,
        "usec": uptime_ns % NS_PER_S // US,
        "msg": text,
        "host": node.name,
    }


# ---- pods ------------------------------------------------------------------------------------------------------------


def pod_name(job: Job, place: int) -> str:
    """The pod of a job's node number `place`; of a Ray job only the head's, which prints for all."""
    return f"raytrain-{job.job_id}-head" if job.framework == "ray" else f"train-{job.job_id}-worker-{place}"


def _labels(job: Job, place: int) -> dict[str, str]:
    if job.framework == "ray":
        return {"ray.io/cluster": f"raytrain-{job.job_id}", "ray.io/job-name": job.job_id, "ray.io/node-type": "head"}
    if job.framework == "maxtext":
        return {
            "jobset.sigs.k8s.io/jobset-name": job.job_id,
            "batch.kubernetes.io/job-name": f"{job.job_id}-slice-0",
            "batch.kubernetes.io/job-completion-index": str(place),
        }
    return {
        "batch.kubernetes.io/job-name": job.job_id,
        "training.kubeflow.org/job-name": job.job_id,
        "training.kubeflow.org/replica-index": str(place),
        "training.kubeflow.org/replica-type": "worker",
    }


class Pod:
    """Wraps the lines of one pod as the shipper of its node sends them."""

    def __init__(self, job: Job, place: int):
        node, name, container = job.nodes[place], pod_name(job, place), _CONTAINERS[job.framework]
        uid = str(uuid5(NAMESPACE_DNS, name))
        self._is_vector = job.pod_shipper == "vector"
        self._file = f"/var/log/pods/training_{name}_{uid}/{container}/0.log"
        shared = {"container_name": container, "pod_name": name, "pod_ip": node.ip}
        shared["container_image"] = f"registry.cluster.local/train/{container}:26.02"
        if self._is_vector:
            self._kubernetes: dict[str, Any] = {
                **shared,
                "container_id": f"containerd://{uid.replace('-', '') * 2}",
                "pod_labels": _labels(job, place),
                "pod_namespace": "training",
                "pod_node_name": node.name,
                "pod_uid": uid,
            }
        else:
            self._kubernetes = {
                **shared,
                "docker_id": uid.replace("-", "") * 2,
                "host": node.name,
                "labels": _labels(job, place),
                "namespace_name": "training",
                "pod_id": uid,
            }

    def wrap(self, clock_ns: int, text: str, stream: str) -> str:
        """The line as JSON; `clock_ns` is when the container runtime read it."""
        stamp = rfc3339_ns(clock_ns)
        if not self._is_vector:
            record = {"@timestamp": stamp, "stream": stream, "log": f"{text}\n", "kubernetes": self._kubernetes}
            return as_json(record)
        record = {"file": self._file, "kubernetes": self._kubernetes, "message": text}
        return as_json({**record, "source_type": "kubernetes_logs", "stream": stream, "timestamp": stamp})


def task_line(job: Job, place: int, clock_ns: int, text: str) -> str:
    """A line of a Slurm task's own output file, as Vector's `file` source on its node sends it, with the job added."""
    node = job.nodes[place]
    record = {
        "file": f"/var/log/slurm/{job.job_id}/{node.name}-{place}.out",
        "host": node.name,
        "job_id": job.job_id,
        "message": text,
        "source_type": "file",
    }
    return as_json({**record, "timestamp": rfc3339_ns(clock_ns)})


def container_name(job: Job) -> str:
    """The container of the job's pods that trains."""
    return _CONTAINERS[job.framework]


def labels_of(about: str, jobs: Iterable[Job]) -> dict[str, str]:
    """The labels of a pod that an event is about; none for anything else."""
    kind, _, name = about.partition("/")
    for job in jobs if kind == "Pod" else ():
        head, place = name, 0
        if job.framework != "ray":
            head, _, number = name.rpartition("-")
            place = int(number) if number.isdigit() else 0
        if head == pod_name(job, 0).removesuffix("-0"):
            return _labels(job, place)
    return {}


def event_line(true_ns: int, kind: str, reason: str, about: str, text: str, host: str, labels: dict[str, str]) -> str:
    """One Kubernetes event as an exporter sends it; `about` is `Pod/train-7877-worker-3` or `Node/node0003`."""
    object_kind, _, name = about.partition("/")
    record = {
        "source_type": "kubernetes_events",
        "timestamp": rfc3339_ns(true_ns),
        "type": kind,
        "reason": reason,
        "message": text,
        "involvedObject": {"kind": object_kind, "name": name, "namespace": "training", "labels": labels},
        "count": 1,
    }
    return as_json({**record, "host": host} if host else record)


def label(task: int, tasks: int, text: str) -> str:
    """A line under `srun --label`: the task right-aligned to the width of the largest one."""
    return f"{task:>{len(str(tasks - 1))}}: {text}"
