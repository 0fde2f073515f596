"""Notifications as JSON POSTs to any URL, in one of three formats, signed if there is a secret."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from epicenter.rules.model.notification import Notification
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.notify.alert import MAX_LABEL_LENGTH, NEVER, Alert, alerts_of, fingerprint, identity
from epicenter.sinks.notify.as_json import json_bytes
from epicenter.sinks.notify.config import WebhookSpec, secrets_of
from epicenter.sinks.notify.http import Clock, Http, PostingTarget
from epicenter.sinks.notify.message import bounded
from epicenter.sinks.notify.target import MessageRef
from epicenter.sinks.notify.templates import Writer
from epicenter.sinks.text import humanize


class WebhookTarget(PostingTarget):
    """Posts notifications with Standard Webhooks headers, and CloudEvents headers in our own format.

    Every attempt has the same id.
    """

    def __init__(self, name: str, spec: WebhookSpec, writer: Writer, clock: Clock):
        super().__init__(name, Http(clock, tuple(secrets_of(spec))))
        self._spec = spec
        self._url = spec.url.get_secret_value()
        self._secrets = [secret.get_secret_value() for secret in spec.secret]
        self._writer = writer
        self._clock = clock

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """As `Target.send`; remembers nothing."""
        body, headers = self.content(notification)
        now_s = self._clock() // NS_PER_S
        headers |= signature_headers(notification.notification_id, now_s, body, self._secrets)
        await self._http.post(self._url, body, {**headers, "Idempotency-Key": notification.notification_id})
        return {}

    def content(self, notification: Notification) -> tuple[bytes, dict[str, str]]:
        """The body in the configured format, and its headers."""
        match self._spec.format:
            case "epicenter":
                attributes = cloud_attributes(notification).items()
                return json_bytes(notification), {f"ce-{name}": value.replace("%", "%25") for name, value in attributes}
            case "cloudevents":
                event = {**cloud_attributes(notification), "datacontenttype": "application/json", "data": notification}
                return json_bytes(event), {"Content-Type": "application/cloudevents+json; charset=utf-8"}
            case "alertmanager":
                return json_bytes(self._alertmanager_body(notification)), {}

    def _alertmanager_body(self, notification: Notification) -> dict[str, Any]:
        """The body of Alertmanager's own webhook, version 4."""
        message = self._writer.write(notification)
        alerts = alerts_of(notification, message, lambda incident: identity(incident, self._spec.labels), self._clock())
        shown = [_shown(alert, notification.link, self._clock()) for alert in alerts]
        return {
            "receiver": self.name,
            "status": "firing" if any(alert.is_firing for alert in alerts) else "resolved",
            "alerts": shown,
            "groupLabels": {"cluster": bounded(notification.incident.cluster, MAX_LABEL_LENGTH)},
            "commonLabels": _common([alert["labels"] for alert in shown]),
            "commonAnnotations": _common([alert["annotations"] for alert in shown]),
            "externalURL": notification.link,
            "version": "4",
            "groupKey": notification.group or notification.incident.incident_id,
            "truncatedAlerts": notification.more,
        }


def signature_headers(message_id: str, now_s: int, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """The Standard Webhooks headers, with one signature per secret."""
    signed = f"{message_id}.{now_s}.".encode() + body
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in secrets]
    signatures = [base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys]
    headers = {"webhook-id": message_id, "webhook-timestamp": str(now_s)}
    return (
        {**headers, "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures)}
        if secrets
        else headers
    )


def cloud_attributes(notification: Notification) -> dict[str, str]:
    """The CloudEvents 1.0 attributes, in ASCII so that they can be headers."""
    time_ns = humanize.ns(notification.event_time)
    cluster = quote(notification.incident.cluster.encode("utf-8", "backslashreplace"), safe="")
    attributes = {
        "specversion": "1.0",
        "id": notification.notification_id,
        "source": f"/epicenter/clusters/{cluster[:MAX_LABEL_LENGTH]}",
        "type": f"epicenter.incident.{notification.kind}",
        "subject": notification.incident.incident_id,
    }
    return {**attributes, "time": humanize.iso(time_ns)} if time_ns is not None else attributes


def _shown(alert: Alert, link: str, now_ns: int) -> dict[str, Any]:
    """The alert for the webhook. `severity`, `class` and `node` are extra labels; the fingerprint excludes them."""
    extra = {name: alert.annotations[name] for name in ("severity", "class", "node") if name in alert.annotations}
    return {
        "status": "firing" if alert.is_firing else "resolved",
        "labels": {**extra, **alert.labels},
        "annotations": alert.annotations,
        "startsAt": alert.starts_at,
        "endsAt": NEVER if alert.is_firing else humanize.iso(now_ns),
        "generatorURL": link,
        "fingerprint": fingerprint(alert.labels),
    }


def _common(texts: Sequence[dict[str, str]]) -> dict[str, str]:
    """The entries that all have."""
    first, *others = texts
    return {name: text for name, text in first.items() if all(other.get(name) == text for other in others)}
