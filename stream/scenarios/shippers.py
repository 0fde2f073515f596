"""A line as the shippers of a cluster wrap it: the record that reaches the raw topic. Shapes: docs/envelopes.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from epicenter.ingest.simulate.envelopes import (
    as_json,
    fluent_bit_pod_record,
    journal_entry,
    rsyslog_line,
    vector_event_record,
    vector_file_record,
    vector_pod_record,
)
from epicenter.ingest.simulate.headers import rfc3339_us
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
    return rfc3339_us(time_ns).removesuffix("+00:00")


def _vector(said: Said) -> bytes:
    if said.source == "kubernetes":
        return _json(vector_event_record(_utc(said), said.text) | _known(host=said.node) | _job(said) | _rank(said))
    labels = {"training.kubeflow.org/job-name": said.job} if said.job else {}
    pod = {"pod_name": f"train-{said.job}-{said.node}", "pod_node_name": said.node, "pod_labels": labels}
    pod["container_name"] = "pytorch"
    return _json(vector_pod_record(pod, _utc(said), "stderr", said.text) | _rank(said))


def _fluent_bit(said: Said) -> bytes:
    labels = {"batch.kubernetes.io/job-name": said.job} if said.job else {}
    pod = {"pod_name": f"train-{said.job}-{said.node}", "host": said.node, "labels": labels, "container_name": "main"}
    return _json(fluent_bit_pod_record(pod, _utc(said), "stdout", said.text) | _rank(said))


def _journald(said: Said) -> bytes:
    return _json(journal_entry(said.node, said.time_ns, said.text, 3))


def _rsyslog(said: Said) -> bytes:
    uptime = f"[{said.time_ns / NS_PER_S % 1_000_000:12.6f}]"
    program = f"kernel: {uptime}" if said.source == "kernel" else "slurmctld[2211]:"
    return rsyslog_line(rfc3339_us(said.time_ns), said.node or "head", program, said.text).encode()


def _file(said: Said) -> bytes:
    name = "slurmctld.log" if said.source == "scheduler" else f"{said.job}.log"
    source = {"source": said.source} if said.source == "scheduler" else {}
    record = vector_file_record(f"/var/log/slurm/{name}", said.node, _utc(said), said.text)
    return _json(record | _job(said) | source | _rank(said))


def _plain(said: Said) -> bytes:
    return said.text.encode()


def _json(record: dict[str, Any]) -> bytes:
    return as_json(record).encode()


def _known(**fields: str) -> dict[str, str]:
    return {name: content for name, content in fields.items() if content}


def _job(said: Said) -> dict[str, str]:
    """Under the name that Slurm gives it."""
    return _known(slurm_job_id=said.job)


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
