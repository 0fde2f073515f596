"""A line as the shippers of a cluster wrap it: the record that reaches the raw topic. Shapes: docs/envelopes.md."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import orjson

from epicenter.rules.model.times import NS_PER_S


class Said(msgspec.Struct, frozen=True):
    """One line with where and when it was written. `node`, `job` are empty and `rank` is None when not known."""

    time_ns: int
    text: str
    source: str
    shipper: str
    node: str = ""
    job: str = ""
    rank: int | None = None


def record_of(said: Said) -> bytes:
    """The bytes that the shipper sends for this line."""
    return _SHIPPERS[said.shipper](said)


def iso(time_ns: int) -> str:
    """`2026-03-02T09:00:01.500000`."""
    seconds, rest_ns = divmod(time_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns // 1000:06d}"


def _vector(said: Said) -> bytes:
    if said.source == "kubernetes":
        return _json(
            source_type="kubernetes_events", timestamp=_utc(said), host=said.node, message=said.text, said=said
        )
    labels = {"training.kubeflow.org/job-name": said.job} if said.job else {}
    pod = {"pod_name": f"train-{said.job}-{said.node}", "pod_node_name": said.node, "pod_labels": labels}
    pod["container_name"] = "pytorch"
    about = {"kubernetes": pod, "source_type": "kubernetes_logs", "timestamp": _utc(said), "stream": "stderr"}
    return orjson.dumps(about | _rank(said) | {"message": said.text})


def _fluent_bit(said: Said) -> bytes:
    labels = {"batch.kubernetes.io/job-name": said.job} if said.job else {}
    pod = {"pod_name": f"train-{said.job}-{said.node}", "host": said.node, "labels": labels, "container_name": "main"}
    about = {"@timestamp": _utc(said), "log": f"{said.text}\n", "stream": "stdout", "kubernetes": pod}
    return orjson.dumps(about | _rank(said))


def _journald(said: Said) -> bytes:
    about = {"_HOSTNAME": said.node, "_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "PRIORITY": "3"}
    return orjson.dumps(about | {"__REALTIME_TIMESTAMP": str(said.time_ns // 1000), "MESSAGE": said.text})


def _rsyslog(said: Said) -> bytes:
    program = (
        f"kernel: [{said.time_ns / NS_PER_S % 1_000_000:12.6f}]" if said.source == "kernel" else "slurmctld[2211]:"
    )
    return f"{iso(said.time_ns)}+00:00 {said.node or 'head'} {program} {said.text}".encode()


def _file(said: Said) -> bytes:
    name = "slurmctld.log" if said.source == "scheduler" else f"{said.job}.log"
    about = {"source_type": "file", "file": f"/var/log/slurm/{name}", "timestamp": _utc(said), "message": said.text}
    return _json(said=said, host=said.node, **about)


def _plain(said: Said) -> bytes:
    return said.text.encode()


def _json(said: Said, **about: Any) -> bytes:
    """Empty fields left out, and the job under the name that Slurm gives it."""
    told = {name: content for name, content in about.items() if content}
    job = {"slurm_job_id": said.job} if said.job else {}
    source = {"source": said.source} if said.source == "scheduler" else {}
    return orjson.dumps(told | job | source | _rank(said))


def _rank(said: Said) -> dict[str, int]:
    return {} if said.rank is None else {"rank": said.rank}


def _utc(said: Said) -> str:
    return f"{iso(said.time_ns)}Z"


_SHIPPERS: Final[dict[str, Callable[[Said], bytes]]] = {
    "vector": _vector,
    "fluent-bit": _fluent_bit,
    "journald": _journald,
    "rsyslog": _rsyslog,
    "file": _file,
    "plain": _plain,
}
