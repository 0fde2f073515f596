"""Prometheus Alertmanager, API v2: one alert per incident, sent again periodically while it is open."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from epicenter.rules.alerts.labels import BUILT_IN
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Brief, Notification
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.notify.alert import Alert, alerts_of, first_labels, identity
from epicenter.sinks.notify.as_json import json_bytes
from epicenter.sinks.notify.config import AlertmanagerSpec, secrets_of
from epicenter.sinks.notify.http import Clock, Http, PostingTarget
from epicenter.sinks.notify.target import MessageRef
from epicenter.sinks.notify.templates import Writer
from epicenter.sinks.text import humanize

REFRESH_EVERY_S: Final = 60.0
EXPIRES_AFTER_NS: Final = 300 * NS_PER_S
"""An alert expires unless it is sent again within this time; Alertmanager loses its state on restart."""


class AlertmanagerTarget(PostingTarget):
    """Fires alerts and resolves them."""

    refresh_every_s: float | None = REFRESH_EVERY_S

    def __init__(self, name: str, spec: AlertmanagerSpec, writer: Writer, clock: Clock):
        super().__init__(name, Http(clock, tuple(secrets_of(spec))))
        self._url = spec.url.get_secret_value().rstrip("/") + "/api/v2/alerts"
        self._headers = _headers(spec)
        self._labels = spec.labels
        self._writer = writer
        self._clock = clock

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """As `Target.send`; remembers the first labels of each incident in the group."""
        labels_by_incident = {
            incident.incident_id: message_ref.get(incident.incident_id) or self._labels_of(incident, notification)
            for incident in _all(notification)
        }
        await self.refresh([(notification, labels_by_incident)])
        return labels_by_incident

    async def refresh(self, still_open: Sequence[tuple[Notification, MessageRef]]) -> None:
        """As `Target.refresh`: everything in one request."""
        if still_open:
            now_ns = self._clock()
            alerts = [
                alert
                for notification, message_ref in still_open
                for alert in self._alerts(notification, message_ref, now_ns)
            ]
            await self._http.post_to_api(self._url, json_bytes(alerts), self._headers)

    def _alerts(self, notification: Notification, message_ref: MessageRef, now_ns: int) -> list[dict[str, Any]]:
        def labels_of(incident: Incident | Brief) -> dict[str, str]:
            labels = message_ref.get(incident.incident_id) or self._labels_of(incident, notification)
            return msgspec.json.decode(labels, type=dict[str, str])

        alerts = alerts_of(notification, self._writer.write(notification), labels_of, now_ns)
        return [_as_posted(alert, notification.link, now_ns) for alert in alerts]

    def _labels_of(self, incident: Incident | Brief, notification: Notification) -> str:
        is_first = incident.incident_id == notification.incident.incident_id
        own = {name: values for name, values in notification.labels.items() if name not in BUILT_IN}
        labels = first_labels(incident, own if is_first else {}) | self._labels
        return json_bytes(identity(incident, labels)).decode()


def _all(notification: Notification) -> list[Incident | Brief]:
    return [notification.incident, *notification.also]


def _as_posted(alert: Alert, link: str, now_ns: int) -> dict[str, Any]:
    ends_ns = now_ns + EXPIRES_AFTER_NS if alert.is_firing else now_ns
    posted = {
        "labels": alert.labels,
        "annotations": alert.annotations,
        "startsAt": alert.starts_at,
        "endsAt": humanize.iso(ends_ns),
    }
    return {**posted, "generatorURL": link} if link else posted


def _headers(spec: AlertmanagerSpec) -> dict[str, str]:
    if spec.bearer_token:
        return {"Authorization": f"Bearer {spec.bearer_token.get_secret_value()}"}
    if spec.basic_auth:
        credentials = f"{spec.basic_auth.username}:{spec.basic_auth.password.get_secret_value()}"
        return {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}
    return {}
