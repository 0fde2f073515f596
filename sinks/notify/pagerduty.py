"""PagerDuty, Events API v2: one alert per group, triggered, acknowledged and resolved by the same key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.notification import Notification
from epicenter.rules.model.signals import SEVERITIES
from epicenter.sinks.notify.as_json import json_bytes
from epicenter.sinks.notify.config import PagerDutySpec, secrets_of
from epicenter.sinks.notify.http import Clock, Http, PostingTarget
from epicenter.sinks.notify.message import MAX_FACT_LENGTH, bounded, cut
from epicenter.sinks.notify.target import MessageRef
from epicenter.sinks.notify.templates import Writer
from epicenter.sinks.text import humanize

MAX_SUMMARY_LENGTH: Final = 1024
MAX_KEY_LENGTH: Final = 255
MAX_BODY_LENGTH: Final = 20_000
MAX_SHOWN_EVIDENCE: Final = 10
_ACTIONS: Final = {"acknowledged": "acknowledge", "resolved": "resolve"}


class PagerDutyTarget(PostingTarget):
    """Sends one event per notification, far below PagerDuty's limit of 512 KB."""

    def __init__(self, name: str, spec: PagerDutySpec, writer: Writer, clock: Clock):
        super().__init__(name, Http(clock, tuple(secrets_of(spec))))
        self._url = spec.url.get_secret_value()
        self._routing_key = spec.routing_key.get_secret_value()
        self._writer = writer

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """As `Target.send`; remembers nothing, because the key comes from the group."""
        await self._http.post_to_api(self._url, json_bytes(self.event(notification)))
        return {}

    def event(self, notification: Notification) -> dict[str, Any]:
        """The request's body."""
        action = _ACTIONS.get(notification.kind, "trigger")
        event: dict[str, Any] = {
            "routing_key": self._routing_key,
            "event_action": action,
            "dedup_key": dedup_key(notification),
        }
        if action == "trigger":
            event |= {"client": "epicenter", "payload": self._payload(notification)}
            if notification.link:
                event |= {
                    "client_url": notification.link,
                    "links": [{"href": notification.link, "text": "Incident and evidence"}],
                }
        return event

    def _payload(self, notification: Notification) -> dict[str, Any]:
        incident = notification.incident
        message = self._writer.write(notification)
        details = dict(message.facts) or {"Message": cut(message.body, MAX_BODY_LENGTH)}
        evidence = [bounded(line.text, MAX_FACT_LENGTH) for line in incident.evidence[:MAX_SHOWN_EVIDENCE]]
        payload = {
            "summary": cut(message.title, MAX_SUMMARY_LENGTH),
            "source": bounded(incident.root_cause.node or incident.cluster, MAX_KEY_LENGTH) or "unknown",
            "severity": incident.severity if incident.severity in SEVERITIES else "error",
            "timestamp": _timestamp(notification),
            "component": bounded(incident.root_cause.gpu, MAX_KEY_LENGTH),
            "group": bounded(incident.cluster, MAX_KEY_LENGTH),
            "class": bounded(incident.failure_class, MAX_KEY_LENGTH),
            "custom_details": details | {"Evidence": evidence, "Action parameters": _parameters(notification)},
        }
        return {name: value for name, value in payload.items() if value}


def dedup_key(notification: Notification) -> str:
    """The PagerDuty key of a group, constant for its lifetime, so that it stays one alert."""
    key = notification.group or notification.incident.incident_id
    is_plain = key.isascii() and key.isprintable() and len(key) <= MAX_KEY_LENGTH
    return key if is_plain else f"epicenter-{stable_id('group', key)}"


def _timestamp(notification: Notification) -> str:
    time_ns = humanize.ns(notification.event_time)
    return humanize.iso(time_ns) if time_ns is not None else ""


def _parameters(notification: Notification) -> Mapping[str, Any]:
    """The action's parameters, or only its kind if they are too large."""
    action = notification.action
    whole: dict[str, Any] = msgspec.to_builtins(action)
    return whole if len(json_bytes(action)) <= MAX_BODY_LENGTH else {"kind": action.kind}
