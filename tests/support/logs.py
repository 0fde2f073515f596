"""Log lines as their sources print them, and the core with its bundled rules, for tests without a broker or a store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import orjson

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.simulate.envelopes import (
    fluent_bit_pod_record,
    journal_entry,
    rsyslog_line,
    vector_pod_record,
)
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.rules.model.records import Position, RawRecord
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.scan.scan import BatchScanner

START_S: Final = 1_772_442_000
START_NS: Final = START_S * NS_PER_S
"""2026-03-02T09:00:00Z: second 0 of every test."""

LATER_NS: Final = START_NS + 86_400 * NS_PER_S
"""When a finished file was last written."""


@cache
def the_rules() -> RuleSet:
    """The bundled catalogue, compiled once a run."""
    return load()


@cache
def _scanner() -> HyperscanScanner:
    return HyperscanScanner(the_rules().expressions)


def a_scanner() -> BatchScanner:
    """A new scanner for the bundled rules."""
    return BatchScanner(the_rules(), "default", _scanner())


def at(second: float) -> int:
    """Nanoseconds of a second of the test."""
    return START_NS + round(second * NS_PER_S)


def iso(second: float) -> str:
    """`2026-03-02T09:00:01.500000Z`."""
    return f"{datetime.fromtimestamp(START_S + second, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def kernel(node: str, second: float, text: str) -> bytes:
    """A line of kern.log as rsyslog writes it."""
    return rsyslog_line(f"{iso(second)[:-1]}+00:00", node, f"kernel: [{8000 + second:12.6f}]", text).encode()


def vector(node: str, second: float, text: str, job: str = "", **more: Any) -> bytes:
    """A container's line as Vector's kubernetes_logs source ships it."""
    labels = {"training.kubeflow.org/job-name": job} if job else {}
    pod = {"pod_name": f"train-{job}", "pod_node_name": node, "pod_labels": labels, "container_name": "pytorch"}
    return orjson.dumps(vector_pod_record(pod, iso(second), "stderr", text) | more)


def fluent_bit(node: str, second: float, text: str, job: str = "", **more: Any) -> bytes:
    """A container's line as Fluent Bit's kubernetes filter ships it."""
    labels = {"batch.kubernetes.io/job-name": job} if job else {}
    pod = {"pod_name": f"train-{job}", "host": node, "labels": labels, "container_name": "main"}
    return orjson.dumps(fluent_bit_pod_record(pod, iso(second), "stdout", text) | more)


def journald(node: str, second: float, text: str, transport: str = "kernel") -> bytes:
    """A journal entry of `journalctl -o json`; text that is not printable comes as a list of bytes."""
    message = text if text.isprintable() else list(text.encode())
    identifier = "kernel" if transport == "kernel" else "python"
    return orjson.dumps(journal_entry(node, at(second), message, 3, identifier, _TRANSPORT=transport))


def python_json(node: str, second: float, text: str, job: str = "") -> bytes:
    """A line from a JSON formatter of Python's logging: escapes for all that is not ASCII, spaces after the colons."""
    return json.dumps({"time": START_S + second, "hostname": node, "job": job, "msg": text}).encode()


def record(value: bytes, key: bytes | None = None, received_ns: int = LATER_NS) -> RawRecord:
    """A single record."""
    return RawRecord(value, Position("test", 1), received_ns, key)


def batch(values: Sequence[bytes], source: str = "test", first: int = 1, key: bytes = b"", live: bool = False) -> Batch:
    """Lines of one source: of a finished file, or `live`."""
    count = len(values)
    received_ns = [LATER_NS] * count
    return Batch(source, values, [key] * count, received_ns, range(first, first + count), is_recorded=not live)
