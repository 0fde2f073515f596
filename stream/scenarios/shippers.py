"""A line in a shipper's envelope: the record that reaches the raw topic. Shapes: docs/envelopes.md."""

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


class WrittenLine(msgspec.Struct, frozen=True):
    """One line with where and when it was written. `node` and `job` are empty and `rank` is None if unknown."""

    time_ns: int
    text: str
    source: str
    shipper: str
    node: str = ""
    job: str = ""
    rank: int | None = None


def record_of(written: WrittenLine) -> bytes:
    """The bytes that the shipper sends for this line."""
    return _SHIPPERS[written.shipper](written)


def iso(time_ns: int) -> str:
    """`2026-03-02T09:00:01.500000`."""
    return rfc3339_us(time_ns).removesuffix("+00:00")


def _vector(written: WrittenLine) -> bytes:
    if written.source == "kubernetes":
        return _json(
            vector_event_record(_utc(written), written.text)
            | _known(host=written.node)
            | _job(written)
            | _rank(written)
        )
    labels = {"training.kubeflow.org/job-name": written.job} if written.job else {}
    pod = {"pod_name": f"train-{written.job}-{written.node}", "pod_node_name": written.node, "pod_labels": labels}
    pod["container_name"] = "pytorch"
    return _json(vector_pod_record(pod, _utc(written), "stderr", written.text) | _rank(written))


def _fluent_bit(written: WrittenLine) -> bytes:
    labels = {"batch.kubernetes.io/job-name": written.job} if written.job else {}
    pod = {
        "pod_name": f"train-{written.job}-{written.node}",
        "host": written.node,
        "labels": labels,
        "container_name": "main",
    }
    return _json(fluent_bit_pod_record(pod, _utc(written), "stdout", written.text) | _rank(written))


def _journald(written: WrittenLine) -> bytes:
    return _json(journal_entry(written.node, written.time_ns, written.text, 3))


def _rsyslog(written: WrittenLine) -> bytes:
    uptime = f"[{written.time_ns / NS_PER_S % 1_000_000:12.6f}]"
    program = f"kernel: {uptime}" if written.source == "kernel" else "slurmctld[2211]:"
    return rsyslog_line(rfc3339_us(written.time_ns), written.node or "head", program, written.text).encode()


def _file(written: WrittenLine) -> bytes:
    name = "slurmctld.log" if written.source == "scheduler" else f"{written.job}.log"
    source = {"source": written.source} if written.source == "scheduler" else {}
    record = vector_file_record(f"/var/log/slurm/{name}", written.node, _utc(written), written.text)
    return _json(record | _job(written) | source | _rank(written))


def _plain(written: WrittenLine) -> bytes:
    return written.text.encode()


def _json(record: dict[str, Any]) -> bytes:
    return as_json(record).encode()


def _known(**fields: str) -> dict[str, str]:
    return {name: content for name, content in fields.items() if content}


def _job(written: WrittenLine) -> dict[str, str]:
    """The job under Slurm's field name."""
    return _known(slurm_job_id=written.job)


def _rank(written: WrittenLine) -> dict[str, int]:
    return {} if written.rank is None else {"rank": written.rank}


def _utc(written: WrittenLine) -> str:
    return f"{iso(written.time_ns)}Z"


_SHIPPERS: Final[dict[str, Callable[[WrittenLine], bytes]]] = {
    "vector": _vector,
    "fluent-bit": _fluent_bit,
    "journald": _journald,
    "rsyslog": _rsyslog,
    "file": _file,
    "plain": _plain,
}
