"""Slack: an incoming webhook gets a message each time; a bot keeps one message up to date, the rest in its thread."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from epicenter.rules.errors import RejectedError
from epicenter.rules.model.notification import Notification
from epicenter.sinks.notify import slack_blocks
from epicenter.sinks.notify.as_json import json_bytes
from epicenter.sinks.notify.config import SlackSpec, secrets_of
from epicenter.sinks.notify.http import Clock, Http, Posting, transient
from epicenter.sinks.notify.target import MessageRef
from epicenter.sinks.notify.templates import Writer
from epicenter.sinks.text.sanitize import sanitize

PASSING: Final = (
    "fatal_error",
    "internal_error",
    "rate_limited",
    "ratelimited",
    "request_timeout",
    "service_unavailable",
    "team_added_to_org",
)
"""Errors that Slack tells with a 200, and that go away by themselves."""
HEAD_IS_GONE: Final = ("cant_update_message", "edit_window_closed", "message_not_found", "thread_not_found")
SHOUTED: Final = ("reopened", "repeated", "escalated")
"""Kinds whose reply in the thread is shown in the channel too: an edited message calls nobody."""


class SlackWebhook(Posting):
    """An incoming webhook: it can't edit what was said, so every notification is a message."""

    def __init__(self, name: str, spec: SlackSpec, writer: Writer, clock: Clock):
        assert spec.url
        super().__init__(name, Http(clock, tuple(secrets_of(spec))))
        self._url = spec.url.get_secret_value()
        self._writer = writer

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """As `Target.send`; it remembers nothing."""
        await self._http.post(
            self._url, json_bytes(slack_blocks.head(self._writer.write(notification), notification.link))
        )
        return {}


class SlackBot(Posting):
    """A bot in a channel: the memo holds the message of the group, `ts` and `channel`."""

    def __init__(self, name: str, spec: SlackSpec, writer: Writer, clock: Clock):
        assert spec.token and spec.channel
        super().__init__(name, Http(clock, tuple(secrets_of(spec))))
        self._channel = spec.channel
        self._api = spec.api_url.get_secret_value().rstrip("/")
        self._headers = {
            "Authorization": f"Bearer {spec.token.get_secret_value()}",
            "Content-Type": "application/json; charset=utf-8",
        }
        self._writer = writer
        self._posted: dict[str, dict[str, str]] = {}

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """As `Target.send`: a first message with the chain in its thread, or that message anew and a reply."""
        if "ts" in message_ref and await self._update(notification, message_ref):
            return message_ref
        return await self._begin(notification)

    async def _begin(self, notification: Notification) -> MessageRef:
        """A message whose thread could not be written is not posted again when the notification is."""
        key = notification.notification_id
        if key not in self._posted:
            said = await self._call("chat.postMessage", {"channel": self._channel, **self._head(notification)})
            self._posted[key] = {"ts": str(said.get("ts", "")), "channel": str(said.get("channel", self._channel))}
        message_ref = self._posted[key]
        if chain := slack_blocks.chain(notification.incident):
            await self._reply(message_ref, chain)
        return self._posted.pop(key)

    async def _update(self, notification: Notification, message_ref: MessageRef) -> bool:
        """Whether the message is still there to be edited."""
        place = {"channel": message_ref["channel"], "ts": message_ref["ts"]}
        said = await self._call("chat.update", {**place, **self._head(notification)}, HEAD_IS_GONE)
        if not said.get("ok"):
            return False
        changed = slack_blocks.change(notification, self._writer.write(notification))
        await self._reply(message_ref, changed, is_shouted=notification.kind in SHOUTED)
        return True

    async def _reply(self, message_ref: MessageRef, message: dict[str, Any], is_shouted: bool = False) -> None:
        place = {"channel": message_ref["channel"], "thread_ts": message_ref["ts"], "reply_broadcast": is_shouted}
        await self._call("chat.postMessage", {**place, **message})

    def _head(self, notification: Notification) -> dict[str, Any]:
        return slack_blocks.head(self._writer.write(notification), notification.link)

    async def _call(self, method: str, arguments: dict[str, Any], expected: Sequence[str] = ()) -> dict[str, Any]:
        """Slack's answer, which is `ok` or one of the `expected` errors."""
        answer = await self._http.post(f"{self._api}/{method}", json_bytes(arguments), self._headers)
        try:
            said = json.loads(answer)
        except ValueError:
            raise transient(f"Slack answers {method} with something that is no JSON") from None
        if not isinstance(said, dict):
            raise transient(f"Slack answers {method} with something else than an object")
        error = str(said.get("error", "no reason"))
        if said.get("ok") is True or error in expected:
            return said
        told = f"Slack refuses {method}: {sanitize(error)[:100]}"
        raise transient(told) if error in PASSING else RejectedError(told)
