"""Incidents as Prometheus alerts: labels that never change, everything else in annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.job_names import named_jobs
from epicenter.rules.model.notification import Brief, Notification
from epicenter.sinks.notify.as_json import json_bytes
from epicenter.sinks.notify.message import Message, bounded, cut
from epicenter.sinks.text import humanize

ALERT_NAME: Final = "EpicenterIncident"
MAX_LABEL_LENGTH: Final = 200
MAX_ANNOTATION_LENGTH: Final = 4_000
NEVER: Final = "0001-01-01T00:00:00Z"
"""Go's zero time."""


class Alert(msgspec.Struct, frozen=True):
    """One incident as an alert: `labels` identify it; `starts_at` is RFC 3339."""

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    is_firing: bool


LabelsOf = Callable[[Incident | Brief], dict[str, str]]
"""The labels of an incident; constant for its lifetime."""


def alerts_of(notification: Notification, message: Message, labels_of: LabelsOf, now_ns: int) -> list[Alert]:
    """The alert of the notification's incident, then one per other incident in its group."""
    incident = notification.incident
    alerts = [
        Alert(
            labels_of(incident),
            annotations_of(notification, message),
            _started(incident, now_ns),
            incident.status == "open",
        )
    ]
    for brief in notification.also:
        annotations = _summary_of(brief) | {"summary": bounded(brief.title, MAX_ANNOTATION_LENGTH)}
        alerts.append(Alert(labels_of(brief), _filled(annotations), _started(brief, now_ns), brief.status == "open"))
    return alerts


def identity(incident: Incident | Brief, more: Mapping[str, str]) -> dict[str, str]:
    """Labels that never change; severity, cause, node and jobs may."""
    cluster = bounded(incident.cluster, MAX_LABEL_LENGTH)
    labels = {**more, "alertname": ALERT_NAME, "cluster": cluster, "incident_id": incident.incident_id}
    return _filled(labels)


def first_labels(incident: Incident | Brief, own: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Further labels for routing, with their current values; `own` are the labels of the alerts file.

    A target that identifies alerts by labels must keep the first values.
    """
    labels = _summary_of(incident) | {name: values[0] for name, values in own.items() if len(values) == 1}
    del labels["jobs"]
    jobs = named_jobs(incident.jobs)
    return {**labels, "job": bounded(jobs[0], MAX_LABEL_LENGTH) if len(jobs) == 1 else ""}


def annotations_of(notification: Notification, message: Message) -> dict[str, str]:
    """The message's facts as annotations, and the action as JSON."""
    annotations = {name.lower().replace(" ", "_"): cut(text, MAX_ANNOTATION_LENGTH) for name, text in message.facts}
    annotations |= _summary_of(notification.incident)
    annotations |= {"summary": message.title, "kind": notification.kind, "link": notification.link}
    if not message.facts:
        annotations["description"] = cut(message.body, MAX_ANNOTATION_LENGTH)
    if notification.action.kind != "none":
        annotations["action"] = _action_json(notification)
    return _filled(annotations)


def fingerprint(labels: Mapping[str, str]) -> str:
    """Prometheus' fingerprint: 64-bit FNV-1a over the sorted labels, each name and value ended by byte 255."""
    digest = 0xCBF29CE484222325
    for byte in b"".join(name.encode() + b"\xff" + labels[name].encode() + b"\xff" for name in sorted(labels)):
        digest = (digest ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{digest:016x}"


def _action_json(notification: Notification) -> str:
    """The action as JSON, or only its kind if that is too long; cut JSON would be invalid."""
    whole = json_bytes(notification.action).decode()
    return whole if len(whole) <= MAX_ANNOTATION_LENGTH else json_bytes({"kind": notification.action.kind}).decode()


def _summary_of(incident: Incident | Brief) -> dict[str, str]:
    node = incident.node if isinstance(incident, Brief) else incident.root_cause.node
    texts = {"severity": incident.severity, "class": incident.failure_class, "node": node}
    texts["jobs"] = humanize.names(incident.jobs, 20)
    return {name: bounded(text, MAX_LABEL_LENGTH) for name, text in texts.items()}


def _started(incident: Incident | Brief, now_ns: int) -> str:
    """The start, at most now: node clocks differ, and an alert must not end before it starts."""
    return humanize.iso(min(humanize.ns(incident.first_seen) or now_ns, now_ns))


def _filled(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text}
