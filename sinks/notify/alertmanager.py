"""Prometheus' Alertmanager, API v2: one alert for each incident, told again and again while it is open."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

from rules.model import NS_PER_S, Notification
from sinks import words
from sinks.notify.alert import Alert, alerts_of
from sinks.notify.as_json import json_bytes
from sinks.notify.config import AlertmanagerSpec, secrets_of
from sinks.notify.http import Clock, Http, Posting
from sinks.notify.target import Memo
from sinks.notify.templates import Writer

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

    async def send(self, notification: Notification, memo: Memo) -> Memo:
        """As `Target.send`; it remembers nothing."""
        await self.refresh([notification])
        return {}

    async def refresh(self, still_open: Sequence[Notification]) -> None:
        """As `Target.refresh`: everything in one request."""
        if still_open:
            now_ns = self._clock()
            body = json_bytes([_posted(alert, link, now_ns) for alert, link in self._alerts(still_open, now_ns)])
            await self._http.post(self._url, body, self._headers)

    def _alerts(self, notifications: Sequence[Notification], now_ns: int) -> list[tuple[Alert, str]]:
        return [
            (alert, notification.link)
            for notification in notifications
            for alert in alerts_of(notification, self._writer.write(notification), self._labels, now_ns)
        ]


def _posted(alert: Alert, link: str, now_ns: int) -> dict[str, Any]:
    ends_ns = now_ns + HOLDS_FOR_NS if alert.is_firing else now_ns
    posted = {
        "labels": alert.labels,
        "annotations": alert.annotations,
        "startsAt": alert.starts_at,
        "endsAt": words.iso(ends_ns),
    }
    return {**posted, "generatorURL": link} if link else posted


def _headers(spec: AlertmanagerSpec) -> dict[str, str]:
    if spec.bearer_token:
        return {"Authorization": f"Bearer {spec.bearer_token.get_secret_value()}"}
    if spec.basic_auth:
        given = f"{spec.basic_auth.username}:{spec.basic_auth.password.get_secret_value()}"
        return {"Authorization": f"Basic {base64.b64encode(given.encode()).decode()}"}
    return {}
