"""Events as PagerDuty's published schema requires them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator, FormatChecker

from epicenter.rules.errors import TransientError
from epicenter.sinks.notify.config import PagerDutySpec, TemplateSpec
from tests.support.notifications import LITTLE, MUCH, SAMPLES, a_notification, a_target
from tests.support.recorder import Answer, recording

SCHEMA = json.loads((Path(__file__).parent / "pagerduty_events_v2.schema.json").read_text())
EVENT = Draft202012Validator(SCHEMA, format_checker=FormatChecker())
KEY = "0123456789abcdefABCDEF0123456789"


async def sent(*notifications: Any, template: TemplateSpec | None = None) -> list[dict[str, Any]]:
    """The events that are sent, each valid."""
    async with recording() as recorder:
        recorder.answer = lambda _: Answer(202, b'{"status": "success"}')
        target = a_target(PagerDutySpec, template, type="pagerduty", routing_key=KEY, url=f"{recorder.url}/v2/enqueue")
        for notification in notifications:
            assert await target.send(notification, {}) == {}
        await target.close()
        events = [request.document for request in recorder.requests]
    for event in events:
        EVENT.validate(event)
    return events


async def test_every_kind_matches_the_events_schema() -> None:
    events = await sent(*SAMPLES)
    assert [event["event_action"] for event in events[:7]] == [*["trigger"] * 5, "acknowledge", "resolve"]
    assert {event["routing_key"] for event in events} == {KEY}


async def test_a_web_page_in_the_place_of_pagerduty_is_no_acceptance() -> None:
    async with recording() as recorder:
        recorder.answer = lambda _: Answer(200, b"<html>Sign in</html>")
        target = a_target(PagerDutySpec, type="pagerduty", routing_key=KEY, url=f"{recorder.url}/v2/enqueue")
        with pytest.raises(TransientError, match="answered with a web page"):
            await target.send(MUCH, {})
        await target.close()


async def test_dedup_key_is_constant_for_a_group() -> None:
    life = [a_notification(kind) for kind in ("opened", "updated", "acknowledged", "resolved")]
    other = msgspec.structs.replace(MUCH, group="another group")
    events = await sent(*life, other)
    assert len({event["dedup_key"] for event in events[:4]}) == 1
    assert events[4]["dedup_key"] != events[0]["dedup_key"]


@pytest.mark.parametrize("group", ["x" * 3000, "späte Gruppe", "a\nb", ""], ids=["long", "umlaut", "lines", "none"])
async def test_dedup_key_fits_for_any_group(group: str) -> None:
    (first, second) = await sent(
        msgspec.structs.replace(MUCH, group=group), msgspec.structs.replace(a_notification("resolved"), group=group)
    )
    assert first["dedup_key"] == second["dedup_key"]
    assert 0 < len(first["dedup_key"].encode()) <= 255


async def test_event_has_summary_source_and_details() -> None:
    (event,) = await sent(MUCH)
    payload = event["payload"]
    assert payload["summary"].startswith("Opened, critical: GPU has fallen off the bus")
    assert (payload["severity"], payload["source"], payload["class"]) == ("critical", "node0001", "xid-79")
    assert payload["timestamp"] == "2026-03-02T09:00:00.000Z"
    assert event["links"][0]["href"] == event["client_url"] == MUCH.link
    names = list(payload["custom_details"])
    assert names[:6] == ["Cause", "Where", "Confidence", "Cost", "Next step", "Link"]
    assert payload["custom_details"]["Action parameters"]["kind"] == "drain-node"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("info", "info"), ("warning", "warning"), ("error", "error"), ("critical", "critical"), ("x", "error")],
)
async def test_severity_is_one_that_pagerduty_accepts(ours: str, theirs: str) -> None:
    (event,) = await sent(a_notification(severity=ours))
    assert event["payload"]["severity"] == theirs


async def test_event_without_a_node_has_the_cluster_as_its_source() -> None:
    (event,) = await sent(LITTLE)
    assert event["payload"]["source"] == "default"
    assert "links" not in event and "client_url" not in event


async def test_template_replaces_summary_and_details() -> None:
    (event,) = await sent(MUCH, template=TemplateSpec(title="{{ incident.class }}!", body="on {{ facts.Where }}"))
    assert event["payload"]["summary"] == "xid-79!"
    assert event["payload"]["custom_details"]["Message"] == "on node0001 · GPU 0000:3b:00 · rank 3"


@pytest.mark.parametrize(
    "broken",
    [
        {"event_action": "trigger", "routing_key": KEY},
        {"event_action": "fire", "routing_key": KEY, "dedup_key": "a"},
        {"event_action": "resolve", "routing_key": KEY},
        {
            "event_action": "trigger",
            "routing_key": KEY,
            "payload": {"summary": "x" * 1025, "source": "a", "severity": "info"},
        },
        {"event_action": "trigger", "routing_key": KEY, "payload": {"summary": "x", "source": "a", "severity": "bad"}},
    ],
    ids=["no payload", "no such action", "no key", "long summary", "no such severity"],
)
def test_schema_refuses_invalid_events(broken: dict[str, Any]) -> None:
    assert not EVENT.is_valid(broken)
