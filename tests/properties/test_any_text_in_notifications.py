"""Whatever text an incident contains: its notifications are valid, within limits, and free of live markup."""

from __future__ import annotations

import json
import re
from pathlib import Path
from time import time_ns
from typing import Any

import msgspec
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from epicenter.rules.model.notification import Notification
from epicenter.sinks.notify import slack_blocks
from epicenter.sinks.notify.alert import alerts_of, fingerprint, identity
from epicenter.sinks.notify.as_json import json_bytes
from epicenter.sinks.notify.config import PagerDutySpec, WebhookSpec
from epicenter.sinks.notify.message import default_message, without_markup
from epicenter.sinks.notify.pagerduty import PagerDutyTarget
from epicenter.sinks.notify.samples import KINDS
from epicenter.sinks.notify.templates import Writer
from epicenter.sinks.notify.webhook import WebhookTarget
from tests.support.notifications import MUCH
from tests.support.slack import check_message, links_of

SCHEMA = Path(__file__).parents[1] / "unit" / "sinks" / "notify" / "pagerduty_events_v2.schema.json"
EVENT = Draft202012Validator(json.loads(SCHEMA.read_text()))
PAGERDUTY = PagerDutyTarget(
    "pd", PagerDutySpec.model_validate({"type": "pagerduty", "routing_key": "0" * 32}), Writer("pd"), time_ns
)
HOOKS = {
    form: WebhookTarget(
        "hook",
        WebhookSpec.model_validate({"type": "webhook", "url": "http://h/", "format": form}),
        Writer("hook"),
        time_ns,
    )
    for form in ("epicenter", "cloudevents", "alertmanager")
}
EVIL = (
    "<!channel>",
    "<@U012|x>",
    "<https://evil.example|click>",
    "@everyone",
    "[x](https://evil.example)",
    "*b* _i_ ~s~ `c`",
    "www.evil.example",
    "&lt;!here&gt;",
    "{{ 7 * 7 }}",
    "\x1b[31m",
    "\u202e",
    "\ud800",
    "\r\nX-Evil: 1",
    "\U000e0041",
)
LIVE = re.compile(r"[@<>\[\]*`~|#&]|://|www\.", re.IGNORECASE)
UNCHANGED = {"status", "event_time", "onset", "time", "first_seen", "last_seen", "incident_id", "link", "kind"}

some_text = st.one_of(st.text(st.characters(), max_size=40), st.sampled_from(EVIL))
texts = st.builds(
    lambda parts, times: "".join(parts) * times, st.lists(some_text, max_size=4), st.sampled_from((1, 400))
)


def written_over(value: Any, texts_: list[str], key: str = "") -> Any:
    """The same document with other texts wherever a text can come from a log."""
    match value:
        case str() if key not in UNCHANGED:
            return texts_[len(value) % len(texts_)]
        case list():
            return [written_over(item, texts_, key) for item in value]
        case dict():
            return {name: written_over(item, texts_, name) for name, item in value.items() if name != "progress"}
    return value


def a_notification_with(texts_: list[str], kind: str) -> Notification:
    document = msgspec.to_builtins(MUCH)
    incident = {
        **written_over(document["incident"], texts_),
        "progress": {texts_[0]: document["incident"]["progress"]["7801"]},
    }
    changed = {name: written_over(document[name], texts_, name) for name in ("also", "action", "group", "reason")}
    return msgspec.convert({**document, **changed, "incident": incident, "kind": kind}, Notification)


notifications = st.builds(a_notification_with, st.lists(texts, min_size=1, max_size=5), st.sampled_from(KINDS))


@given(notifications)
def test_slack_messages_are_valid(notification: Notification) -> None:
    message = default_message(notification)
    head = json.loads(json_bytes(slack_blocks.head(message, notification.link)))
    check_message(head)
    assert links_of(head) == [notification.link]
    chain = slack_blocks.chain(notification.incident)
    assert chain
    for more in (chain, slack_blocks.change(notification, message)):
        check_message(json.loads(json_bytes(more)))
        assert links_of(more) == []


@given(notifications)
def test_pagerduty_events_are_valid(notification: Notification) -> None:
    body = json_bytes(PAGERDUTY.event(notification))
    assert len(body) < 512_000
    EVENT.validate(json.loads(body))


@given(notifications)
def test_alertmanager_alerts_are_valid(notification: Notification) -> None:
    alerts = alerts_of(notification, default_message(notification), lambda incident: identity(incident, {}), time_ns())
    assert len(alerts) == 1 + len(notification.also)
    for alert in alerts:
        assert len(json_bytes(alert)) < 64_000
        assert all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) for name in (*alert.labels, *alert.annotations))
        assert all((*alert.labels.values(), *alert.annotations.values()))
        assert set(alert.labels) <= {"alertname", "cluster", "incident_id"}
        assert all(text.isprintable() for text in alert.labels.values())
        assert re.fullmatch("[0-9a-f]{16}", fingerprint(alert.labels))


@given(notifications)
def test_webhook_requests_are_valid(notification: Notification) -> None:
    for form, target in HOOKS.items():
        body, headers = target.content(notification)
        document = json.loads(body)
        assert all(value.isascii() and value.isprintable() for value in headers.values())
        if form == "alertmanager":
            assert (document["version"], len(document["alerts"])) == ("4", 1 + len(notification.also))
            continue
        event = from_http_event(HTTPMessage({"Content-Type": "application/json"} | headers, body))
        assert event.get_type() == f"epicenter.incident.{notification.kind}"


@given(notifications)
def test_apprise_messages_are_bounded_and_without_markup(notification: Notification) -> None:
    message = default_message(notification, without_markup)
    assert len(message.title) <= 250 and "\n" not in message.title
    assert len(message.body) < 10_000
    assert not LIVE.search(message.title)
    assert not LIVE.search(message.body.replace(notification.link, ""))
    assert len(message.body.splitlines()) == len(message.facts)
