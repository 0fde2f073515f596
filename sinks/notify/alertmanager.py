"""Prometheus' Alertmanager, API v2: one alert for each incident, told again and again while it is open."""

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
from epicenter.sinks.notify.http import Clock, Http, Posting
from epicenter.sinks.notify.target import MessageRef
from epicenter.sinks.notify.templates import Writer
from epicenter.sinks.text import humanize

REFRESH_EVERY_S: Final = 60.0
HOLDS_FOR_NS: Final = 300 * NS_PER_S
"""An alert that is not told again for so long is over: Alertmanager forgets everything when it restarts."""


class AlertmanagerTarget(Posting):
    """Tells what fires, and ends it when it is over."""

    refresh_every_s: float | None = REFRESH_EVERY_S

    def __init__(self, name: str, spec: AlertmanagerSpec, writer: Writer, clock: Clock):
        super().__init__(name, Http(clock, tuple(secrets_of(spec))))
        self._url = spec.url.get_secret_value().rstrip("/") + "/api/v2/alerts"
        self._headers = _headers(spec)
        self._labels = spec.labels
        self._writer = writer
        self._clock = clock

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """As `Target.send`; it remembers the labels that each incident of the group was first told with."""
        kept = {
            one.incident_id: message_ref.get(one.incident_id) or self._labels_of(one, notification)
            for one in _all(notification)
        }
        await self.refresh([(notification, kept)])
        return kept

    async def refresh(self, still_open: Sequence[tuple[Notification, MessageRef]]) -> None:
        """As `Target.refresh`: everything in one request."""
        if still_open:
            now_ns = self._clock()
            told = [self._posted(notification, message_ref, now_ns) for notification, message_ref in still_open]
            await self._http.post(self._url, json_bytes([one for alerts in told for one in alerts]), self._headers)

    def _posted(self, notification: Notification, message_ref: MessageRef, now_ns: int) -> list[dict[str, Any]]:
        def labels_of(one: Incident | Brief) -> dict[str, str]:
            return msgspec.json.decode(
                message_ref.get(one.incident_id) or self._labels_of(one, notification), type=dict[str, str]
            )

        alerts = alerts_of(notification, self._writer.write(notification), labels_of, now_ns)
        return [_posted(alert, notification.link, now_ns) for alert in alerts]

    def _labels_of(self, one: Incident | Brief, notification: Notification) -> str:
        is_first = one.incident_id == notification.incident.incident_id
        own = {name: values for name, values in notification.labels.items() if name not in BUILT_IN}
        labels = first_labels(one, own if is_first else {}) | self._labels
        return json_bytes(identity(one, labels)).decode()


def _all(notification: Notification) -> list[Incident | Brief]:
    return [notification.incident, *notification.also]


def _posted(alert: Alert, link: str, now_ns: int) -> dict[str, Any]:
    ends_ns = now_ns + HOLDS_FOR_NS if alert.is_firing else now_ns
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
        given = f"{spec.basic_auth.username}:{spec.basic_auth.password.get_secret_value()}"
        return {"Authorization": f"Basic {base64.b64encode(given.encode()).decode()}"}
    return {}
