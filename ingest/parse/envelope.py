"""RawRecord -> LogEvent: the envelope that Vector, Fluent Bit, rsyslog or journald put around a line, or none.

Field names and their order: the envelope table in docs/envelopes.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import msgspec
import orjson

from ingest.parse.cluster_event import TIME_FIELDS as EVENT_TIME_FIELDS
from ingest.parse.cluster_event import cluster_event
from ingest.parse.prefix import Peeled, peel
from ingest.parse.times import plausible, time_at_head, time_from_field
from rules.errors import RecordError
from rules.model import LogEvent, Origin, RawRecord

TEXT_FIELDS: Final = ("message", "log", "msg", "MESSAGE", "body")
_TIME_FIELDS = ("timestamp", "@timestamp", "time", "date", "ts", "__REALTIME_TIMESTAMP")
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
_JOB_FIELDS = ("job", "job_id", "slurm_job_id", "SLURM_JOB_ID")
_JOB_LABELS = (
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "ray.io/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_RANK_FIELDS = ("rank", "RANK", "global_rank", "task")
_POD_INDEX_LABELS = ("batch.kubernetes.io/job-completion-index",)
_SOURCE_FIELDS = ("source", "source_type", "tag", "_TRANSPORT", "SYSLOG_IDENTIFIER")
_SOURCES = {
    "kernel": re.compile(r"(?:^|[\s./:_])(?:kernel|kmsg)(?:$|[\s./:_])|kern\.log", re.IGNORECASE),
    "scheduler": re.compile(r"slurmctld|slurmd\b|scheduler", re.IGNORECASE),
    "kubernetes": re.compile(r"kubernetes_events|kube-?events?", re.IGNORECASE),
    "worker": re.compile(r"worker|kubernetes_logs|docker_logs|kube\.", re.IGNORECASE),
}
_RANK_OF_C10D = re.compile(r"\[(?:PG [^\]\n]{1,100} )?Rank (\d{1,7})\]", re.ASCII)
_PLAIN = Origin()
_KMSG_FIELDS = {"priority", "sequence", "sec", "usec", "msg"}


@dataclass(frozen=True)
class Parsed:
    """An event and the part of its text that rules look at: without prefixes and colours.

    `speaker` is who wrote it, by its own stream field and prefixes: lines of one source that have the same speaker
    come from the same process.
    """

    event: LogEvent
    body: str
    speaker: str = ""


def is_envelope(value: bytes) -> bool:
    """Whether the value means to be a JSON object."""
    return value.startswith(b'{"')


def check_envelope(value: bytes) -> None:
    """Raises RecordError when the value means to be an envelope and no text can be had from it."""
    _text_of(_fields(value, must_be_json=True), value)


def parse(record: RawRecord, cluster: str, piece: str = "") -> Parsed:
    """The event in a record. A broken envelope counts as a plain line here, so that what it shows is not lost.

    `piece` is one of the `pieces_of` its body, when the line holds several: what the piece tells of itself comes before
    what the line tells. The text of the event is the whole line all the same.

    Raises:
        RecordError: an envelope whose text is no text.
    """
    fields = _fields(record.value, must_be_json=False)
    text = _text_of(fields, record.value).rstrip("\r\n")
    line = text.lstrip("\r\n\0")
    peeled = peel(line)
    heads = _heads(line, peeled)
    if piece:
        own = peel(piece)
        peeled, heads = own.within(peeled), (*_heads(piece, own), *heads)
    time_ns = _stated_time(fields, heads, record.received_ns)
    about = cluster_event(fields)
    origin = _PLAIN if is_envelope(record.value) else record.origin or _PLAIN
    event = LogEvent(
        event_time_ns=record.received_ns if time_ns is None else time_ns,
        text=text,
        position=record.position,
        has_own_time=time_ns is not None,
        cluster=_first(fields, ("cluster",)) or cluster,
        node=about.node
        if about
        else _first(fields, _NODE_FIELDS) or peeled.host or origin.node_of(peeled.task) or _key(record),
        source="kubernetes" if about else _source(fields, peeled.is_kernel),
        job=_first(fields, _JOB_FIELDS)
        or _first(about.labels if about else _labels(fields), _JOB_LABELS)
        or (about.job if about else _job(peeled, origin)),
        rank=_rank(fields, peeled, origin),
        pod=about.pod if about else _first(fields, ("kubernetes.pod_name",)) or peeled.pod,
        container=_first(fields, ("kubernetes.container_name",)) or peeled.container,
        log="" if peeled.host else origin.log,
    )
    return Parsed(event, peeled.body, " ".join(filter(None, (_first(fields, ("stream",)), peeled.speaker))))


def _job(peeled: Peeled, origin: Origin) -> str:
    """The job of a plain line: a kernel has none, and what syslog gathers is not a file's own."""
    is_gathered = bool(peeled.timed and peeled.host)
    return "" if peeled.is_kernel or (is_gathered and not origin.is_job_told) else origin.job


def _key(record: RawRecord) -> str:
    return record.key.decode("utf-8", "replace") if record.key else ""


def _heads(line: str, peeled: Peeled) -> tuple[str, ...]:
    """Where a time may stand, the outermost first."""
    if len(peeled.body) == len(line):
        return (line,)
    return (line, peeled.timed, peeled.body) if peeled.timed else (line, peeled.body)


class _Texts(msgspec.Struct):
    """The text fields alone; the rest of an envelope is passed over."""

    message: str | None = None
    log: str | None = None
    msg: str | None = None
    MESSAGE: str | None = None
    body: str | None = None


_decode_texts = msgspec.json.Decoder(_Texts).decode


def text_of(value: bytes) -> str:
    """The text of a record, and nothing else of it.

    Raises:
        RecordError: an envelope whose text is no text.
    """
    if is_envelope(value):
        try:
            texts = _decode_texts(value)
        except msgspec.DecodeError:
            return _text_of(_fields(value, must_be_json=False), value)
        for text in (texts.message, texts.log, texts.msg, texts.MESSAGE, texts.body):
            if text is not None:
                return text
    return value.decode("utf-8", "replace")


def own_time(record: RawRecord) -> int | None:
    """The time that a record states, without anything else of it."""
    fields = _fields(record.value, must_be_json=False)
    try:
        line = _text_of(fields, record.value).lstrip("\r\n\0")
    except RecordError:
        return None
    return _stated_time(fields, _heads(line, peel(line)), record.received_ns)


def _fields(value: bytes, must_be_json: bool) -> dict[str, Any]:
    if not is_envelope(value):
        return {}
    try:
        return dict(orjson.loads(value))
    except orjson.JSONDecodeError as error:
        if must_be_json:
            raise RecordError(f"not JSON: {error}") from error
        return {}


def _text_of(fields: dict[str, Any], value: bytes) -> str:
    stated = {name: fields[name] for name in TEXT_FIELDS if name in fields}
    name = next((name for name, content in stated.items() if content is not None), next(iter(stated), ""))
    return _as_text(name, stated[name]) if name else value.decode("utf-8", "replace")


def _as_text(name: str, content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in content):
        return bytes(content).decode("utf-8", "replace")
    raise RecordError(f"wrong shape: field {name!r} should be text, found {type(content).__name__}")


def _stated_time(fields: dict[str, Any], heads: tuple[str, ...], received_ns: int) -> int | None:
    names = (*EVENT_TIME_FIELDS, *_TIME_FIELDS) if "metadata" in fields else _TIME_FIELDS
    stated = (time_from_field(_at(fields, name)) for name in names) if fields else ()
    told = (time_at_head(head, received_ns) for head in heads)
    return next((time_ns for time_ns in chain(stated, told) if plausible(time_ns, received_ns)), None)


def _source(fields: dict[str, Any], has_kernel_prefix: bool) -> str:
    if fields.keys() >= _KMSG_FIELDS:
        return "kernel"
    told = " ".join(str(fields[name]) for name in _SOURCE_FIELDS if name in fields)
    for source, shape in _SOURCES.items():
        if told and shape.search(told):
            return source
    if has_kernel_prefix:
        return "kernel"
    return "worker" if "kubernetes" in fields else ""


def _labels(fields: dict[str, Any]) -> dict[str, Any]:
    pod = fields.get("kubernetes")
    labels = (pod.get("pod_labels") or pod.get("labels")) if isinstance(pod, dict) else None
    return labels if isinstance(labels, dict) else {}


def _rank(fields: dict[str, Any], peeled: Peeled, origin: Origin) -> int | None:
    """The stated rank, else the one that a prefix tells, the task of srun, the pod's index or the file.

    A task is a rank where the line and its file tell no other; a pod's index is the rank of its first process.
    """
    task = None if peeled.task is None else _rank_of_task(peeled.task, peeled.body, origin)
    told = (_first(fields, _RANK_FIELDS), peeled.rank, task, _first(_labels(fields), _POD_INDEX_LABELS), origin.rank)
    return next((rank for one in told if (rank := _number(one)) is not None), None)


def _rank_of_task(task: int, body: str, origin: Origin) -> int | None:
    if told := _RANK_OF_C10D.search(body):
        return int(told[1])
    return task if origin.tasks_are_ranks else None


def _number(told: str | int | None) -> int | None:
    if isinstance(told, int):
        return told
    return int(told) if told and told.isascii() and told.isdigit() and len(told) < 8 else None


def _first(fields: dict[str, Any], names: Iterable[str]) -> str:
    if not fields:
        return ""
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
