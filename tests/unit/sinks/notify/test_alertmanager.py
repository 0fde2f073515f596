"""Our alerts in a real Alertmanager: accepted, shown, grouped, silenced there, resolved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time_ns
from typing import Any

import aiohttp
import pytest

from epicenter.rules.errors import RejectedError
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.notify.alert import fingerprint
from epicenter.sinks.notify.alertmanager import EXPIRES_AFTER_NS
from epicenter.sinks.notify.config import AlertmanagerSpec, WebhookSpec
from epicenter.sinks.notify.target import Target
from tests.support.alertmanager import alertmanager
from tests.support.notifications import LITTLE, MUCH, a_notification, a_target, real
from tests.support.recorder import Recorder, recording

Ours = tuple[Target, str, Recorder]


@pytest.fixture
async def ours(tmp_path: Path) -> AsyncIterator[Ours]:
    """A target, the address of its Alertmanager, and the receiver of that Alertmanager."""
    async with recording() as receiver:
        with alertmanager(tmp_path, f"{receiver.url}/hook") as url:
            target = a_target(AlertmanagerSpec, type="alertmanager", url=url)
            yield target, url, receiver
            await target.close()


async def shown(url: str) -> dict[str, Any]:
    """The alerts in Alertmanager's API, by the id of the incident."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v2/alerts") as answer:
        return {alert["labels"]["incident_id"]: alert for alert in await answer.json()}


async def silence(url: str, incident_id: str) -> None:
    now = datetime.now(UTC)
    wanted = {
        "matchers": [{"name": "incident_id", "value": incident_id, "isRegex": False}],
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(),
        "createdBy": "a test",
        "comment": "known",
    }
    async with aiohttp.ClientSession() as session, session.post(f"{url}/api/v2/silences", json=wanted) as answer:
        assert answer.status == 200


async def received(receiver: Recorder, incident_id: str, status: str = "firing") -> dict[str, Any]:
    """The next message of Alertmanager about this incident in this status."""
    while True:
        body: dict[str, Any] = (await receiver.next()).document
        if (incident_id, status) in {(alert["labels"]["incident_id"], alert["status"]) for alert in body["alerts"]}:
            return body


async def test_incident_fires_is_grouped_and_resolves(ours: Ours) -> None:
    target, url, receiver = ours
    second = a_notification(incident_id="second")
    await target.send(MUCH, {})
    message_ref = await target.send(second, {})
    alert = (await shown(url))[MUCH.incident.incident_id]
    assert alert["status"]["state"] in ("active", "unprocessed")
    assert alert["annotations"]["severity"] == "critical"
    assert alert["annotations"]["where"] == "node0001 · GPU 0000:3b:00 · rank 3"
    assert alert["generatorURL"] == MUCH.link
    assert alert["fingerprint"] == fingerprint(alert["labels"])
    both = await received(receiver, "second")
    assert {alert["labels"]["incident_id"] for alert in both["alerts"]} >= {"second", MUCH.incident.incident_id}
    assert both["groupLabels"] == {"cluster": "default"}
    await target.send(a_notification("resolved", second), message_ref)
    assert await received(receiver, "second", "resolved")
    assert set(await shown(url)) == {MUCH.incident.incident_id, LITTLE.incident.incident_id}


async def test_alert_silenced_in_alertmanager_is_suppressed(ours: Ours) -> None:
    target, url, receiver = ours
    await silence(url, "quiet")
    await target.send(a_notification(notification=LITTLE, incident_id="quiet"), {})
    await target.send(a_notification(notification=LITTLE, incident_id="loud"), {})
    body = await received(receiver, "loud")
    assert [alert["labels"]["incident_id"] for alert in body["alerts"]] == ["loud"]
    assert (await shown(url))["quiet"]["status"]["state"] == "suppressed"


async def test_alert_keeps_its_labels_when_the_incident_changes(ours: Ours) -> None:
    target, url, _ = ours
    message_ref = await target.send(a_notification(notification=LITTLE, incident_id="one"), {})
    first = (await shown(url))["one"]["labels"]
    changes = {
        "severity": "critical",
        "failure_class": "xid-79",
        "jobs": ("1", "2"),
        "root_cause": MUCH.incident.root_cause,
    }
    updated = a_notification("updated", LITTLE, incident_id="one", **changes)
    message_ref = await target.send(updated, message_ref)
    await target.refresh([(updated, message_ref)])
    (alert,) = (await shown(url)).values()
    assert alert["labels"] == first
    assert first["severity"] != "critical"
    assert (alert["annotations"]["severity"], alert["annotations"]["jobs"]) == ("critical", "1, 2")


async def test_each_incident_of_a_group_is_an_alert(ours: Ours) -> None:
    target, url, _ = ours
    others = tuple(real(f"other{number}").incident for number in range(3))
    await target.send(real("worst", also=others), {})
    assert set(await shown(url)) == {"worst", "other0", "other1", "other2"}


async def test_refresh_extends_open_alerts_by_five_minutes(ours: Ours) -> None:
    target, url, _ = ours
    assert target.refresh_every_s == 60
    await target.send(a_notification(notification=LITTLE, incident_id="one"), {})
    before = (await shown(url))["one"]
    await target.refresh([(a_notification(notification=LITTLE, incident_id=name), {}) for name in ("one", "two")])
    after = await shown(url)
    assert set(after) == {"one", "two"}
    assert before["endsAt"] < after["one"]["endsAt"]
    ends = datetime.fromisoformat(after["one"]["endsAt"])
    assert 0 < ends.timestamp() - time_ns() / NS_PER_S <= EXPIRES_AFTER_NS / NS_PER_S


async def test_refresh_without_open_groups_sends_nothing() -> None:
    async with recording() as recorder:
        target = a_target(AlertmanagerSpec, type="alertmanager", url=recorder.url)
        await target.refresh([])
        await target.close()
        assert recorder.requests == []


async def test_unusual_texts_are_accepted(ours: Ours) -> None:
    target, url, _ = ours
    unusual = "\x00\x1b[31m\u202e\ud800 <b>&\"'\n"
    await target.send(
        a_notification(cluster=unusual, title=unusual, nodes=(unusual,), jobs=(unusual,), severity=unusual), {}
    )
    assert (await shown(url))[MUCH.incident.incident_id]["labels"]["cluster"].startswith(r"\x00\x1b[31m\u202e\ud800")


async def test_start_is_never_after_now(ours: Ours) -> None:
    target, url, _ = ours
    await target.send(a_notification("resolved", first_seen="2096-01-01T00:00:00.000000000Z"), {})
    await target.send(a_notification(first_seen="2096-01-01T00:00:00.000000000Z", incident_id="ahead"), {})
    assert "ahead" in await shown(url)


async def test_password_or_token_is_sent() -> None:
    async with recording() as recorder:
        for way, sent in (
            ({"basic_auth": {"username": "u", "password": "p"}}, "Basic dTpw"),
            ({"bearer_token": "t0ken"}, "Bearer t0ken"),
        ):
            target = a_target(AlertmanagerSpec, type="alertmanager", url=recorder.url + "/behind/", **way)
            await target.send(MUCH, {})
            await target.close()
            assert recorder.requests[-1].headers["Authorization"] == sent
            assert recorder.requests[-1].path == "/behind/api/v2/alerts"


async def test_rejected_request_is_an_error(ours: Ours) -> None:
    _, url, _ = ours
    target = a_target(AlertmanagerSpec, type="alertmanager", url=f"{url}/elsewhere")
    with pytest.raises(RejectedError, match=r"127\.0\.0\.1 rejected it with 404"):
        await target.send(MUCH, {})
    await target.close()


def shape(value: Any) -> Any:
    """Keys and types; for a list those of its first part, for labels and annotations only that they are texts."""
    match value:
        case dict():
            return {
                key: "texts"
                if key.endswith(("abels", "nnotations")) and set(map(type, part.values())) <= {str}
                else shape(part)
                for key, part in value.items()
            }
        case list():
            return [shape(value[0])]
    return type(value).__name__


async def test_webhook_body_has_the_shape_of_alertmanagers(ours: Ours) -> None:
    target, _, receiver = ours
    await target.send(MUCH, {})
    theirs = await received(receiver, MUCH.incident.incident_id)
    await target.send(a_notification("resolved"), {})
    theirs_over = await received(receiver, MUCH.incident.incident_id, "resolved")
    hook = a_target(WebhookSpec, type="webhook", url=f"{receiver.url}/ours", format="alertmanager")
    fingerprints = set[str]()
    for kind, expected in (("opened", theirs), ("resolved", theirs_over)):
        await hook.send(a_notification(kind), {})
        body = next(request.document for request in reversed(receiver.requests) if request.path == "/ours")
        assert shape(body) == shape(expected)
        assert (body["version"], body["status"]) == (expected["version"], expected["status"])
        mine, other = (
            next(alert for alert in content["alerts"] if alert["labels"]["incident_id"] == MUCH.incident.incident_id)
            for content in (body, expected)
        )
        assert other["fingerprint"] == fingerprint(other["labels"])
        fingerprints.add(mine["fingerprint"])
        assert datetime.fromisoformat(mine["startsAt"]) == datetime.fromisoformat(other["startsAt"])
        assert (mine["endsAt"] == other["endsAt"]) is (kind == "opened")
    await hook.close()
    assert len(fingerprints) == 1
