"""The fields of a Kubernetes Event, as API server and shippers write it: core/v1 and events.k8s.io/v1."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson

TIME_FIELDS: Final = ("eventTime", "lastTimestamp", "deprecatedLastTimestamp", "firstTimestamp")
_OBJECT_FIELDS = ("involvedObject", "regarding")
MARKS_OF_AN_EVENT: Final = frozenset(("metadata", *_OBJECT_FIELDS))
"""Fields with which `TIME_FIELDS` are those of an Event: exporters may leave out its metadata."""

ORIGIN_FIELDS: Final = ("source", "deprecatedSource")


class ClusterEvent(msgspec.Struct, frozen=True):
    """The object that it is about; a field is empty when the Event lacks it.

    `labels` are those that an exporter adds to the object, else those that a site adds to the Event.
    """

    node: str = ""
    pod: str = ""
    job: str = ""
    labels: dict[str, Any] = {}


def cluster_event(fields: dict[str, Any]) -> ClusterEvent | None:
    """The Event in an envelope; None if there is none."""
    about = _first_object(fields, _OBJECT_FIELDS)
    if about is None:
        return None
    kind, name = str(about.get("kind", "")), str(about.get("name", ""))
    origin = _first_object(fields, ORIGIN_FIELDS) or {}
    metadata = _first_object(fields, ("metadata",)) or {}
    return ClusterEvent(
        node=name if kind == "Node" else str(origin.get("host") or ""),
        pod=name if kind == "Pod" else "",
        job=name if kind in ("Job", "PyTorchJob", "MPIJob", "JobSet", "RayJob", "TrainJob") else "",
        labels=_first_object(about, ("labels",)) or _first_object(metadata, ("labels",)) or {},
    )


def printed_event(text: str) -> dict[str, Any]:
    """The fields of an Event that the text is, as exporters of events print it; empty if it is none."""
    if not (text.lstrip().startswith("{") and any(f'"{name}"' in text for name in _OBJECT_FIELDS)):
        return {}
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return fields if cluster_event(fields) else {}


def _first_object(fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    for name in names:
        if isinstance(found := fields.get(name), dict):
            return found
    return None
