"""Lines that came out of a log store: Loki (`logcli -o jsonl`), Google Cloud Logging, Amazon CloudWatch, Elasticsearch,
Datadog; Events of a watch.

An export wraps the line once more. Its own fields say who wrote the line, in the words of the store.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from epicenter.ingest.parse.kube_event import cluster_event
from epicenter.ingest.parse.node_names import is_node_name

_SCRAPE_JOB = re.compile(
    r".*/|(?:.*[-_.])?(?:journald?|varlogs?|syslog|kern(?:el)?|containers?|docker|kubelet|kubernetes|pods?|promtail"
    r"|alloy|vector|fluent-?bit|fluentd|loki|logs?|system)(?:$|[-_.])",
    re.IGNORECASE,
)
"""Names of the collector's own jobs, which Loki keeps in the same label as a site may keep the training job."""

_LABELS_OF_LOKI = {
    "pod": "kubernetes.pod_name",
    "container": "kubernetes.container_name",
    "job_name": "job_id",
    "transport": "_TRANSPORT",
    "syslog_identifier": "SYSLOG_IDENTIFIER",
}
_POD_LABEL: Final = "k8s-pod/"
_NODE_LABEL: Final = "compute.googleapis.com/resource_name"
_WRITTEN_BY_SHIPPERS: Final = ("kubernetes", "stream", "source_type", "_HOSTNAME", "_TRANSPORT")
_JOB_OF_STREAM: Final = re.compile(
    r"(?:job-|slurm-)([1-9]\d{2,9})|(?!(?:19|20)\d\d(?:\d{4})?$)([1-9]\d{2,9})|(raysubmit_\w{4,40})", re.ASCII
)
"""A part of a stream's name that is a job; a number that may be a date needs a word before it."""

_JOB_OF_GROUP: Final = re.compile(r"/(?:train(?:ing)?|jobs?)/(?!job$)(?P<job>[^/]{1,120})$|/TrainingJobs$", re.ASCII)
"""A group that is named after a job, or SageMaker's group of all jobs."""

_RANK_OF_STREAM: Final = re.compile(r"rank[-_]?(\d{1,7})", re.ASCII)

_OF_A_WATCH: Final = ("event", "object")
"""Where eventrouter and a watch of the API server (`kubectl get events --watch -o json`) put the Event."""

_OF_A_HIT: Final = ("_source", "attributes")
"""Where searches in Elasticsearch, OpenSearch and Datadog put the record."""

_TEXTS_OF_GOOGLE = ("MESSAGE", "message", "log", "msg")


def unwrapped(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields as a shipper would have written them; the same if they are not of a store."""
    if "logStreamName" in fields or ("logGroup" in fields and "logStream" in fields):
        return _with_inner(_of_cloudwatch(fields), "message")
    if "insertId" in fields:
        return _with_inner(_of_google(fields), "message")
    if "line" in fields and isinstance(fields.get("labels"), dict):
        return _with_inner(_of_loki(fields), "message")
    for name in _OF_A_HIT:
        if isinstance(inner := fields.get(name), dict) and isinstance(inner.get("message"), str):
            return _with_inner(inner, "message")
    for name in _OF_A_WATCH:
        if inner := _event_in(fields, name):
            return fields | inner
    return fields


def _event_in(fields: dict[str, Any], name: str) -> dict[str, Any]:
    inner = fields.get(name)
    return inner if isinstance(inner, dict) and cluster_event(inner) else {}


def _of_loki(fields: dict[str, Any]) -> dict[str, Any]:
    """`{"labels": {…}, "line": …, "timestamp": …}`, as LogCLI prints it."""
    labels = {_LABELS_OF_LOKI.get(name, name): content for name, content in fields["labels"].items() if content}
    if _SCRAPE_JOB.match(str(labels.get("job", ""))):
        del labels["job"]
    if instance := labels.pop("instance", ""):
        labels.setdefault("host", str(instance).partition(":")[0])
    return {**labels, "message": fields["line"], "timestamp": fields.get("timestamp")}


def _of_google(fields: dict[str, Any]) -> dict[str, Any]:
    """A LogEntry, as `gcloud logging read --format json` and log sinks print it."""
    payload, labels = _object(fields, "jsonPayload"), _object(fields, "labels")
    resource = _object(_object(fields, "resource"), "labels")
    text = fields.get("textPayload") or next((payload[name] for name in _TEXTS_OF_GOOGLE if name in payload), None)
    unwrapped = {name: content for name, content in payload.items() if name not in _TEXTS_OF_GOOGLE}
    if text is not None:
        unwrapped["message"] = text
    if node := resource.get("node_name") or labels.get(_NODE_LABEL):
        unwrapped["node"] = node
    if pod := resource.get("pod_name"):
        of_pod = {_label_of_pod(name): label for name, label in labels.items() if name.startswith(_POD_LABEL)}
        container = resource.get("container_name")
        unwrapped["kubernetes"] = {"pod_name": pod, "container_name": container, "labels": of_pod}
    return {"timestamp": fields.get("timestamp"), **unwrapped}


def _label_of_pod(name: str) -> str:
    """The label's own name; Google writes `_` for a dot before the slash."""
    prefix, slash, rest = name.removeprefix(_POD_LABEL).rpartition("/")
    return prefix.replace("_", ".") + slash + rest


def _of_cloudwatch(fields: dict[str, Any]) -> dict[str, Any]:
    """An event of `aws logs filter-log-events`, or with its group, as export tools add it.

    Group and stream are named by the site, often after node, job, rank or pod, the job before its node; by SageMaker
    after its training job.
    """
    stream = str(fields.get("logStreamName") or fields.get("logStream"))
    unwrapped = {"message": fields.get("message"), "timestamp": fields.get("timestamp"), "stream": stream}
    first, *parts = stream.split("/")
    group = _JOB_OF_GROUP.search(str(fields.get("logGroup", "")))
    if group and (group["job"] or parts):
        unwrapped["job_id"] = group["job"] or first
        if group["job"] and parts and _RANK_OF_STREAM.fullmatch(parts[-1]):
            unwrapped["host"] = first
    for part in (first, *parts):
        if is_node_name(part):
            unwrapped.setdefault("host", part)
        elif found := _JOB_OF_STREAM.fullmatch(part):
            unwrapped.setdefault("job_id", found[found.lastindex or 0])
        elif found := _RANK_OF_STREAM.fullmatch(part):
            unwrapped.setdefault("rank", found[1])
    if unwrapped.get("host") in parts and "job_id" not in unwrapped:
        unwrapped["job_id"] = first
    return unwrapped


def _with_inner(outer: dict[str, Any], name: str) -> dict[str, Any]:
    """The fields with those of the envelope that a shipper had put around the line before; its own fields count."""
    text = outer.get(name)
    if not (isinstance(text, str) and text.startswith('{"')):
        return outer
    try:
        inner = orjson.loads(text)
    except orjson.JSONDecodeError:
        return outer
    is_of_shipper = isinstance(inner, dict) and any(name in inner for name in _WRITTEN_BY_SHIPPERS)
    return {key: content for key, content in outer.items() if key != name} | inner if is_of_shipper else outer


def _object(fields: dict[str, Any], name: str) -> dict[str, Any]:
    content = fields.get(name)
    return content if isinstance(content, dict) else {}
