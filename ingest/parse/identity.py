"""The writer of a line by its envelope: the fields that stay the same from line to line.

Field names and their order: the envelope table in docs/envelopes.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import orjson

from epicenter.ingest.parse.kube_event import ORIGIN_FIELDS, ClusterEvent, cluster_event

_NODE_FIELDS = (
    "host",
    "hostname",
    "node",
    "node_name",
    "kubernetes.pod_node_name",
    "kubernetes.host",
    "_HOSTNAME",
    "resource.host.name",
)
_JOB_FIELDS = ("job_id", "slurm_job_id", "SLURM_JOB_ID", "attrs.job_id", "attrs.SLURM_JOB_ID", "job")
_JOB_LABELS = (
    *("job_id", "job-id"),
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "ray.io/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)
"""A site's own id names one run; an operator's name may be used again."""

_CGROUP_FIELDS = ("_SYSTEMD_CGROUP", "_SYSTEMD_UNIT")
_JOB_OF_CGROUP = re.compile(r"\bjob[_-](\d{1,10})(?=[/.]|$)")
"""Slurm's cgroups (`/system.slice/slurmstepd.scope/job_7877/step_0`), and units that sites name alike."""

_JOB_OF_UNIT = re.compile(r"(?:train(?:ing|er)?)[-@](?P<job>[\w.-]{1,80})\.(?:service|scope)$", re.ASCII)
_IDENTIFIER_FIELDS = ("SYSLOG_IDENTIFIER", "proc", "process")
_RANK_OF_IDENTIFIER = re.compile(r"rank[-_]?(\d{1,7})$", re.ASCII)
"""How sites name the units of a job and its processes that systemd runs."""

_TAG_PARTS = re.compile(r"[|/, ;]")
_RANK_FIELDS = ("rank", "RANK", "global_rank", "task")
_POD_INDEX_LABELS = ("batch.kubernetes.io/job-completion-index",)
_SOURCE_FIELDS = (
    *("source", "source_type", "tag", "_TRANSPORT", "SYSLOG_IDENTIFIER"),
    *("programname", "syslogtag", "appname", "ident", "unit"),
)
_SOURCES = {
    "kernel": re.compile(r"(?:^|[\s./:_])(?:kernel|(?:im)?kmsg|imklog)(?:$|[\s./:_])|kern\.log", re.IGNORECASE),
    "scheduler": re.compile(r"slurmctld|slurmd\b|scheduler", re.IGNORECASE),
    "kubernetes": re.compile(r"kubernetes_events|kube-?events?", re.IGNORECASE),
    "worker": re.compile(r"worker|kubernetes_logs|docker_logs|kube\.", re.IGNORECASE),
}
_KMSG_FIELDS = {"priority", "sequence", "sec", "usec", "msg"}
_POD_FIELDS = ("kubernetes.pod_name", "attrs.io.kubernetes.pod.name")
_CONTAINER_FIELDS = ("kubernetes.container_name", "attrs.io.kubernetes.container.name")
_ALL_FIELDS = frozenset(
    (
        "cluster",
        "stream",
        "kubernetes",
        "resource",
        "attrs",
        *_NODE_FIELDS,
        *_JOB_FIELDS,
        *_CGROUP_FIELDS,
        *_RANK_FIELDS,
        *_IDENTIFIER_FIELDS,
        *_SOURCE_FIELDS,
        *_POD_FIELDS,
        *_CONTAINER_FIELDS,
        *ORIGIN_FIELDS,
    )
)
MAX_WRITERS: Final = 20_000
"""At most this many writers are remembered; with more, all are forgotten and read again."""

MAX_WRITER_BYTES: Final = 8 << 10
"""Longer fields are read each time."""


class Identity(msgspec.Struct, frozen=True):
    """Who wrote a line, as its envelope states it; empty where it does not.

    `address` is that of its pod. `is_in_pod`: from a container's log. `is_of_docker`: Docker writes one file for each
    container, on its node.
    """

    cluster: str = ""
    node: str = ""
    source: str = ""
    job: str = ""
    rank: str = ""
    pod_index: str = ""
    pod: str = ""
    container: str = ""
    stream: str = ""
    address: str = ""
    is_in_pod: bool = False
    is_cluster_event: bool = False
    is_of_docker: bool = False


_NOTHING = Identity()
_identity_by_fields: dict[bytes, Identity] = {}


def identity_of(fields: dict[str, Any]) -> Identity:
    """The identity in an envelope's fields. For the same writer's next line it is a look-up."""
    if not fields:
        return _NOTHING
    event = cluster_event(fields)
    if event or fields.keys() >= _KMSG_FIELDS:
        return _read_identity(fields, event)
    try:
        fields_key = orjson.dumps({name: content for name, content in fields.items() if name in _ALL_FIELDS})
    except orjson.JSONEncodeError:  # nested more deeply than it writes
        return _read_identity(fields, None)
    identity = _identity_by_fields.get(fields_key)
    if identity is None:
        identity = _read_identity(fields, None)
        if len(fields_key) <= MAX_WRITER_BYTES:
            if len(_identity_by_fields) >= MAX_WRITERS:
                _identity_by_fields.clear()
            _identity_by_fields[_shrunk(fields_key)] = identity
    return identity


def _shrunk(dumped: bytes) -> bytes:
    """A copy to keep: what orjson returns keeps 4 kB, however short it is (measured with orjson 3.13)."""
    return bytes(memoryview(dumped))


def names_no_writer(identity: Identity) -> bool:
    """Whether the envelope states neither node, job, rank nor pod, and no source."""
    stated = (identity.node, identity.source, identity.job, identity.rank, identity.pod_index, identity.pod)
    return not any(stated) and not identity.is_in_pod


def _read_identity(fields: dict[str, Any], event: ClusterEvent | None) -> Identity:
    tagged_pod, tagged_job = _names_in_tag(fields)
    its_job = (
        _first(fields, _JOB_FIELDS) or _first(_labels(fields), _JOB_LABELS) or _job_of_cgroup(fields) or tagged_job
    )
    return Identity(
        cluster=_first(fields, ("cluster",)),
        node=event.node if event else _first(fields, _NODE_FIELDS),
        source="kubernetes" if event else _source(fields),
        job=_first(event.labels, _JOB_LABELS) or event.job if event else its_job,
        rank=_first(fields, _RANK_FIELDS) or _rank_of_identifier(fields),
        pod_index=_first(_labels(fields), _POD_INDEX_LABELS),
        pod=event.pod if event else _first(fields, _POD_FIELDS) or tagged_pod,
        container=_first(fields, _CONTAINER_FIELDS),
        stream=_first(fields, ("stream",)),
        address="" if event else _first(fields, ("kubernetes.pod_ip",)),
        is_in_pod="kubernetes" in fields,
        is_of_docker="attrs" in fields,
        is_cluster_event=event is not None,
    )


def _source(fields: dict[str, Any]) -> str:
    if fields.keys() >= _KMSG_FIELDS:
        return "kernel"
    names = " ".join(str(fields[name]) for name in _SOURCE_FIELDS if name in fields)
    return next((source for source, shape in _SOURCES.items() if names and shape.search(names)), "")


def _names_in_tag(fields: dict[str, Any]) -> tuple[str, str]:
    """The pod and the job in Docker's `tag` option, a template of the site, as `llama-worker-3|llama`; else empty.

    A name without a number (`trainer`) is that of the containers on all nodes. A pod's name has all words of its job's.
    """
    container, *others = _TAG_PARTS.split(_first(fields, ("attrs.tag",)))
    if not any(map(str.isdigit, container)):
        return "", ""
    return container, next((name for name in others if name and _has_words_of(container, name)), "")


def _has_words_of(pod: str, job: str) -> bool:
    """Whether the words of the job begin the pod's name, or follow each other in it (`llama-raycluster-7-head`)."""
    words = iter(pod.split("-"))
    return pod != job and pod.startswith(job.partition("-")[0] + "-") and all(word in words for word in job.split("-"))


def _job_of_cgroup(fields: dict[str, Any]) -> str:
    cgroup = _first(fields, _CGROUP_FIELDS)
    found = _JOB_OF_CGROUP.search(cgroup) or _JOB_OF_UNIT.match(cgroup.rpartition("/")[2])
    return found[1] if found else ""


def _rank_of_identifier(fields: dict[str, Any]) -> str:
    found = _RANK_OF_IDENTIFIER.match(_first(fields, _IDENTIFIER_FIELDS))
    return found[1] if found else ""


def _labels(fields: dict[str, Any]) -> dict[str, Any]:
    if isinstance(of_docker := fields.get("attrs"), dict):
        return of_docker
    pod = fields.get("kubernetes")
    labels = (pod.get("pod_labels") or pod.get("labels")) if isinstance(pod, dict) else None
    return labels if isinstance(labels, dict) else {}


def _first(fields: dict[str, Any], names: Iterable[str]) -> str:
    for name in names:
        content = _at(fields, name)
        if isinstance(content, str | int) and not isinstance(content, bool) and content != "":
            return str(content)
    return ""


def _at(fields: dict[str, Any], dotted: str) -> Any:
    if dotted in fields or "." not in dotted:
        return fields.get(dotted)
    outer, inner = dotted.split(".", 1)
    nested = fields.get(outer)
    return nested.get(inner) if isinstance(nested, dict) else None
