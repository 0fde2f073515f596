"""Slack without Slack: its block models, its documented limits, and a server that answers like it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from slack_sdk.models.blocks import Block, RichTextBlock

from tests.support.recorder import Answer, Request

ERRORS = ("message_not_found", "ratelimited", "invalid_auth")
MAX_BLOCKS = 50
MAX_TEXT_LENGTH = 4_000
MAX_TOTAL_LENGTH = 13_000
"""Slack answers msg_blocks_too_long somewhat above."""


class Workspace:
    """Answers `chat.postMessage` and `chat.update` like Slack, with 200 for errors too; `fails` has the next errors."""

    def __init__(self) -> None:
        self.fails: dict[str, str] = {}
        self.messages: dict[str, dict[str, Any]] = {}

    def __call__(self, request: Request) -> Answer:
        method, message = request.path.rpartition("/")[2], request.document
        if error := self.fails.pop("thread" if "thread_ts" in message else method, ""):
            return _json({"ok": False, "error": error})
        if method == "chat.update" and message["ts"] not in self.messages:
            return _json({"ok": False, "error": "message_not_found"})
        ts = message.get("ts") or f"1772442000.{len(self.messages):06}"
        self.messages[ts] = message
        return _json({"ok": True, "ts": ts, "channel": "C0123", "message": {"text": message["text"]}})


def check_message(message: dict[str, Any]) -> None:
    """It is within Slack's limits, its blocks are those that the official library knows, and no text is markup."""
    assert 0 < len(message["text"]) <= MAX_TEXT_LENGTH
    assert not set("<>") & set(message["text"])
    assert (message["mrkdwn"], message["parse"], message["link_names"]) == (False, "none", False)
    assert 0 < len(message["blocks"]) <= MAX_BLOCKS
    for block in message["blocks"]:
        parsed = Block.parse(block)
        assert isinstance(parsed, RichTextBlock), "any other block has text that Slack may parse"
        assert parsed.to_dict() == block
    texts = list(_parts(message["blocks"]))
    assert {part["type"] for part in texts} <= {"text", "link"}
    assert all(part["text"] for part in texts)
    assert sum(len(part["text"]) for part in texts) <= MAX_TOTAL_LENGTH
    assert all(len(part["url"]) <= 3_000 for part in texts if part["type"] == "link")


def text_of(message: dict[str, Any]) -> str:
    """What people read."""
    return "".join(part["text"] for part in _parts(message["blocks"]))


def links_of(message: dict[str, Any]) -> list[str]:
    """Where they can click."""
    return [part["url"] for part in _parts(message["blocks"]) if part["type"] == "link"]


def _parts(blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        for element in block["elements"]:
            assert element["type"] in ("rich_text_section", "rich_text_preformatted")
            yield from element["elements"]


def _json(value: object) -> Answer:
    return Answer(200, orjson.dumps(value), {"Content-Type": "application/json"})
