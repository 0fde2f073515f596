"""Slack: an incoming webhook gets one message per notification; a bot updates one message and replies in its thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from epicenter.rules.errors import RejectedError
from epicenter.rules.model.notification import Notification
from epicenter.sinks.notify import slack_blocks
from epicenter.sinks.notify.as_json import json_bytes
from epicenter.sinks.notify.config import SlackSpec, secrets_of
from epicenter.sinks.notify.http import Clock, Http, PostingTarget, transient
from epicenter.sinks.notify.target import MessageRef
from epicenter.sinks.notify.templates import Writer
from epicenter.sinks.text.sanitize import sanitize

TRANSIENT_ERRORS: Final = (
    "fatal_error",
    "internal_error",
    "rate_limited",
    "ratelimited",
    "request_timeout",
    "service_unavailable",
    "team_added_to_org",
)
"""Errors that Slack returns with status 200 and that are worth a retry."""
MESSAGE_GONE_ERRORS: Final = ("cant_update_message", "edit_window_closed", "message_not_found", "thread_not_found")
BROADCAST_KINDS: Final = ("reopened", "repeated", "escalated")
"""Kinds whose reply also goes to the channel, because an edited message notifies no one."""


class SlackWebhook(PostingTarget):
    """An incoming webhook: it can't edit messages, so every notification is a new one."""

    def __init__(self, name: str, spec: SlackSpec, writer: Writer, clock: Clock):
        assert spec.url
        super().__init__(name, Http(clock, tuple(secrets_of(spec))))
        self._url = spec.url.get_secret_value()
        self._writer = writer

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """As `Target.send`; remembers nothing."""
        await self._http.post_to_api(
            self._url, json_bytes(slack_blocks.head(self._writer.write(notification), notification.link))
        )
        return {}


class SlackBot(PostingTarget):
    """A bot in a channel; the message reference holds `ts` and `channel` of the group's message."""

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
        """As `Target.send`: posts a message with the chain in its thread, or updates it and replies."""
        if message_ref.get("ts") and await self._update(notification, message_ref):
            return message_ref
        return await self._post(notification)

    async def _post(self, notification: Notification) -> MessageRef:
        """Post the group's message. If its thread fails, a retry does not post the message again."""
        key = notification.notification_id
        if key not in self._posted:
            answer = await self._call("chat.postMessage", {"channel": self._channel, **self._head(notification)})
            self._posted[key] = self._reference(answer)
        message_ref = self._posted[key]
        if message_ref and (chain := slack_blocks.chain(notification.incident)):
            await self._reply(message_ref, chain)
        return self._posted.pop(key)

    def _reference(self, answer: dict[str, Any]) -> dict[str, str]:
        """Where the message is; empty if Slack doesn't answer that, so that the next notification is a new message."""
        ts, channel = answer.get("ts"), answer.get("channel")
        if not (isinstance(ts, str) and ts):
            return {}
        return {"ts": ts, "channel": channel if isinstance(channel, str) else self._channel}

    async def _update(self, notification: Notification, message_ref: MessageRef) -> bool:
        """Update the message and reply; False if the message no longer exists."""
        place = {"channel": message_ref["channel"], "ts": message_ref["ts"]}
        answer = await self._call("chat.update", {**place, **self._head(notification)}, MESSAGE_GONE_ERRORS)
        if not answer.get("ok"):
            return False
        changed = slack_blocks.change(notification, self._writer.write(notification))
        await self._reply(message_ref, changed, is_broadcast=notification.kind in BROADCAST_KINDS)
        return True

    async def _reply(self, message_ref: MessageRef, message: dict[str, Any], is_broadcast: bool = False) -> None:
        place = {"channel": message_ref["channel"], "thread_ts": message_ref["ts"], "reply_broadcast": is_broadcast}
        await self._call("chat.postMessage", {**place, **message})

    def _head(self, notification: Notification) -> dict[str, Any]:
        return slack_blocks.head(self._writer.write(notification), notification.link)

    async def _call(self, method: str, arguments: dict[str, Any], expected: Sequence[str] = ()) -> dict[str, Any]:
        """Slack's answer: `ok` or one of the `expected` errors.

        Raises:
            TransientError: what answers is not Slack, or Slack is busy.
            RejectedError: Slack refuses it for another reason.
        """
        content = await self._http.post(f"{self._api}/{method}", json_bytes(arguments), self._headers)
        try:
            answer = orjson.loads(content)
        except ValueError:
            raise transient(f"Slack: the answer to {method} is not JSON") from None
        if not isinstance(answer, dict):
            raise transient(f"Slack: the answer to {method} is not a JSON object")
        error = answer.get("error")
        if answer.get("ok") is True or error in expected:
            return answer
        if answer.get("ok") is not False or not isinstance(error, str):
            raise transient(f"Slack: the answer to {method} is not one of Slack's: no `ok`, or no reason")
        problem = f"Slack rejected {method}: {sanitize(error)[:100]}"
        raise transient(problem) if error in TRANSIENT_ERRORS else RejectedError(problem)
