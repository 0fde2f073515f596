"""The webhook's three formats, its signatures by the reference library, its events by CloudEvents' own."""

from __future__ import annotations

import base64
from time import time_ns
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from epicenter.rules.model.notification import Notification
from epicenter.sinks.notify.alert import fingerprint
from epicenter.sinks.notify.config import TemplateSpec, WebhookSpec
from tests.support.notifications import MUCH, SAMPLES, a_notification, a_target
from tests.support.recorder import Request, recording

SECRET, NEW_SECRET = (f"whsec_{base64.b64encode(bytes([number]) * 32).decode()}" for number in (1, 2))


async def sent(
    *notifications: Notification, template: TemplateSpec | None = None, clock: Any = time_ns, **written: Any
) -> list[Request]:
    async with recording() as recorder:
        target = a_target(WebhookSpec, template, clock, type="webhook", url=f"{recorder.url}/hook", **written)
        for notification in notifications:
            assert await target.send(notification, {}) == {}
        await target.close()
        return recorder.requests


def event_in(request: Request) -> Any:
    return from_http_event(HTTPMessage(dict(request.headers), request.body))


async def test_own_format_is_the_whole_notification() -> None:
    (request,) = await sent(MUCH)
    assert msgspec.json.decode(request.body, type=Notification) == MUCH
    assert request.headers["Idempotency-Key"] == request.headers["webhook-id"] == MUCH.notification_id
    assert request.headers["Content-Type"] == "application/json"
    assert "webhook-signature" not in request.headers


@pytest.mark.parametrize("written", [{}, {"format": "cloudevents"}], ids=["binary mode", "structured mode"])
async def test_cloudevents_format_is_valid(written: dict[str, Any]) -> None:
    unusual = a_notification("resolved", cluster='größe "1"\r\nX-Evil: 1')
    for notification, request in zip((*SAMPLES, unusual), await sent(*SAMPLES, unusual, **written), strict=True):
        event = event_in(request)
        assert event.get_specversion() == "1.0"
        assert event.get_id() == notification.notification_id
        assert event.get_type() == f"epicenter.incident.{notification.kind}"
        assert event.get_subject() == notification.incident.incident_id
        assert event.get_time().isoformat() in ("2026-03-02T09:00:00+00:00", "2026-03-02T10:00:00+00:00")
        assert event.get_datacontenttype() == "application/json"
        assert msgspec.convert(event.get_data(), Notification) == notification
        assert "X-Evil" not in request.headers
    assert event.get_source() == "/epicenter/clusters/gr%C3%B6%C3%9Fe%20%221%22%0D%0AX-Evil%3A%201"


@pytest.mark.parametrize("format_", ["epicenter", "cloudevents", "alertmanager"])
async def test_signature_is_accepted_by_the_reference_library(format_: str) -> None:
    (request,) = await sent(a_notification(title="grün \U0001f525"), secret=SECRET, format=format_)
    Webhook(SECRET).verify(request.body, dict(request.headers))
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW_SECRET).verify(request.body, dict(request.headers))
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(request.body.replace(b"critical", b"harmless"), dict(request.headers))


async def test_every_secret_signs_during_rotation() -> None:
    (request,) = await sent(MUCH, secret=[NEW_SECRET, SECRET])
    for secret in (SECRET, NEW_SECRET):
        Webhook(secret).verify(request.body, dict(request.headers))


async def test_retry_has_the_same_id_and_a_new_timestamp() -> None:
    times = iter((1_000 * 10**9, 2_000 * 10**9))
    first, second = await sent(MUCH, MUCH, secret=SECRET, clock=lambda: next(times))
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert (first.headers["webhook-timestamp"], second.headers["webhook-timestamp"]) == ("1000", "2000")
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


async def test_alertmanager_format_has_alerts_and_labels() -> None:
    (request,) = await sent(MUCH, format="alertmanager", labels={"team": "ml"})
    body = request.document
    assert (body["version"], body["receiver"], body["status"]) == ("4", "ops", "firing")
    assert (body["groupKey"], body["truncatedAlerts"]) == (MUCH.group, MUCH.more)
    first, second = body["alerts"]
    assert first["labels"] == {
        "alertname": "EpicenterIncident",
        "cluster": "default",
        "incident_id": MUCH.incident.incident_id,
        "team": "ml",
        "severity": "critical",
        "class": "xid-79",
        "node": "node0001",
    }
    assert (second["labels"]["incident_id"], second["status"]) == (MUCH.also[0].incident_id, "firing")
    assert body["commonLabels"] == {"alertname": "EpicenterIncident", "cluster": "default", "team": "ml"}


async def test_alert_keeps_its_fingerprint() -> None:
    opened, ended = await sent(a_notification(), a_notification("resolved", severity="error"), format="alertmanager")
    (first, last) = (request.document["alerts"][0] for request in (opened, ended))
    assert first["fingerprint"] == last["fingerprint"]
    assert (first["status"], last["status"]) == ("firing", "resolved")
    assert first["endsAt"] == "0001-01-01T00:00:00Z" < last["endsAt"]


async def test_alertmanager_format_uses_templates() -> None:
    template = TemplateSpec(title="T {{ incident.severity }}", body="B")
    (request,) = await sent(MUCH, template=template, format="alertmanager")
    annotations = request.document["alerts"][0]["annotations"]
    assert (annotations["summary"], annotations["description"]) == ("T critical", "B")


def test_fingerprint_equals_that_of_prometheus() -> None:
    """The empty set's is the FNV-1a offset, as `LabelSet.Fingerprint` of prometheus/common has it."""
    assert fingerprint({}) == "cbf29ce484222325"
    assert fingerprint({"b": "2", "a": "1"}) == fingerprint({"a": "1", "b": "2"}) != fingerprint({"a": "12", "b": ""})


async def test_lone_surrogate_is_encoded() -> None:
    (request,) = await sent(a_notification(title="half \ud800"))
    assert request.document["incident"]["title"] == r"half \ud800"


async def test_log_text_is_json_text_only() -> None:
    (request,) = await sent(a_notification(title='x", "kind": "resolved"}\r\nX-Evil: 1\u202e</script>\x00'))
    assert request.document["incident"]["title"] == 'x", "kind": "resolved"}\r\nX-Evil: 1\u202e</script>\x00'
    assert "X-Evil" not in request.headers
