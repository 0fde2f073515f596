"""Records of other products that got into a topic of log lines, by what they begin with or by their fields.

Sources: Confluent's wire format (a zero byte, then the schema's number), MessagePack, gzip, OTLP, Debezium,
CloudEvents, Vector's metrics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_HEAD_BYTES = 256
_CONTROLS = re.compile(rb"[\x01-\x06\x0e-\x1a\x1c-\x1f]")
_MSGPACK_MAP = re.compile(rb"[\x81-\x8f](?P<size>[\xa1-\xbf])(?P<key>[\w@.-]{1,31})", re.ASCII)
_BY_FIELDS: Final = (
    ({"resourceMetrics"}, "metrics of OpenTelemetry"),
    ({"resourceSpans"}, "traces of OpenTelemetry"),
    ({"resourceLogs"}, "many lines in one record (OpenTelemetry): send one record for each line"),
    ({"before", "after", "op"}, "a change in a database (Debezium)"),
    ({"schema", "payload"}, "a record of Kafka Connect with its schema (Debezium)"),
    ({"specversion", "type", "source", "id"}, "an event (CloudEvents)"),
    *(({"name", "kind", value}, "a metric of Vector") for value in ("counter", "gauge", "set", "distribution")),
    *(({"name", "kind", value}, "a metric of Vector") for value in ("aggregated_histogram", "aggregated_summary")),
)


def product_of_fields(fields: Mapping[str, Any]) -> str:
    """What a JSON object without a text is, when it is known to be no log line; else empty."""
    return next((product for names, product in _BY_FIELDS if names <= fields.keys()), "")


def product_of_bytes(value: bytes) -> str:
    """What a value is that is no text, by its first bytes; else empty. Zeros before a text are a truncated file."""
    head = value[:_HEAD_BYTES]
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"\0") and _CONTROLS.search(head):
        return "Avro or Protobuf behind the number of a schema"
    if head.startswith(b"\n") and _CONTROLS.search(head):
        return "Protobuf"
    found = _MSGPACK_MAP.match(head)
    return "MessagePack" if found and len(found["key"]) >= found["size"][0] - 0xA0 else ""
