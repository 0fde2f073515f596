"""What shippers put around a line: Vector, Fluent Bit, journald, kmsg, rsyslog, srun.

The one writer of these shapes: the first functions get what a caller knows of its line, the others fill in what a
simulated cluster knows. A `stamp` is the time as text, with the digits that the caller's shipper shows.

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
_JOURNAL_ORDER = (
    *(
        "__CURSOR",
        "__REALTIME_TIMESTAMP",
        "__MONOTONIC_TIMESTAMP",
        "_BOOT_ID",
        "_MACHINE_ID",
        "_HOSTNAME",
        "_TRANSPORT",
    ),
    *("_SOURCE_MONOTONIC_TIMESTAMP", "PRIORITY", "SYSLOG_FACILITY", "SYSLOG_IDENTIFIER", "MESSAGE"),
)
"""As `journalctl` writes them."""
_AT_ERROR = ("error", "Error", "Out of memory", "panic", "blocked for", "SXid", "Fatal", "failed")


def as_json(record: dict[str, Any]) -> str:
    """The record on one line."""
    return msgspec.json.encode(record).decode()


# ---- one function a shipper ------------------------------------------------------------------------------------------


def rsyslog_line(stamp: str, host: str, program: str, text: str) -> str:
    """A line of rsyslog's RFC 3339 format; `program` is `kernel: [ 8000.000000]` or `slurmctld[2211]:`."""
    return f"{stamp} {host} {program} {text}"


def journal_entry(
    host: str, time_ns: int, text: str | list[int], priority: int, identifier: str = "kernel", **more: str
) -> dict[str, Any]:
    """An entry of `journalctl -o json`; from the kernel unless `_TRANSPORT` says otherwise."""
    entry = {
        "__REALTIME_TIMESTAMP": str(time_ns // US),
        "_HOSTNAME": host,
        "_TRANSPORT": "kernel",
        "PRIORITY": str(priority),
        "SYSLOG_IDENTIFIER": identifier,
        "MESSAGE": text,
        **more,
    }
    return {name: entry[name] for name in sorted(entry, key=_JOURNAL_ORDER.index)}


def vector_pod_record(kubernetes: dict[str, Any], stamp: str, stream: str, text: str) -> dict[str, Any]:
    """A container's line from Vector's `kubernetes_logs`."""
    source = {"source_type": "kubernetes_logs", "stream": stream, "timestamp": stamp}
    return {"kubernetes": kubernetes, "message": text, **source}


def fluent_bit_pod_record(kubernetes: dict[str, Any], stamp: str, stream: str, text: str) -> dict[str, Any]:
    """A container's line from Fluent Bit's `tail`, behind its kubernetes filter."""
    return {"@timestamp": stamp, "stream": stream, "log": f"{text}\n", "kubernetes": kubernetes}


def vector_file_record(file: str, host: str, stamp: str, text: str, **fields: Any) -> dict[str, Any]:
    """A line of a file from Vector's `file` source, with the fields that its configuration adds."""
    about = {"file": file, "host": host} if host else {"file": file}
    return {**about, **fields, "message": text, "source_type": "file", "timestamp": stamp}


def vector_event_record(stamp: str, text: str, **fields: str) -> dict[str, Any]:
    """A Kubernetes event from an exporter, without the object that it is about."""
    return {"source_type": "kubernetes_events", "timestamp": stamp, **fields, "message": text}


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
        return rsyslog_line(rfc3339_us(clock_ns), node.name, f"kernel: {stamp}", text)
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
    return journal_entry(
        node.name,
        clock_ns,
        text,
        _level(text),
        __CURSOR=f"s={uuid5(NAMESPACE_DNS, node.name).hex};i={node.kernel_sequence:x};b={_boot_id(node)}",
        __MONOTONIC_TIMESTAMP=str(uptime_ns // US),
        _BOOT_ID=_boot_id(node),
        _MACHINE_ID=uuid5(NAMESPACE_DNS, node.name).hex,
        _SOURCE_MONOTONIC_TIMESTAMP=str(uptime_ns // US),
        SYSLOG_FACILITY="0",
    )


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
            return as_json(fluent_bit_pod_record(self._kubernetes, stamp, stream, text))
        return as_json({"file": self._file, **vector_pod_record(self._kubernetes, stamp, stream, text)})


def task_line(job: Job, place: int, clock_ns: int, text: str) -> str:
    """A line of a Slurm task's own output file, as Vector's `file` source on its node sends it, with the job added."""
    node = job.nodes[place]
    file = f"/var/log/slurm/{job.job_id}/{node.name}-{place}.out"
    return as_json(vector_file_record(file, node.name, rfc3339_ns(clock_ns), text, job_id=job.job_id))


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
        **vector_event_record(rfc3339_ns(true_ns), text, type=kind, reason=reason),
        "involvedObject": {"kind": object_kind, "name": name, "namespace": "training", "labels": labels},
        "count": 1,
    }
    return as_json({**record, "host": host} if host else record)


def label(task: int, tasks: int, text: str) -> str:
    """A line under `srun --label`: the task right-aligned to the width of the largest one."""
    return f"{task:>{len(str(tasks - 1))}}: {text}"
