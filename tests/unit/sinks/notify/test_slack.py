"""Messages in Slack: one for each incident, kept up to date, the chain in its thread."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from epicenter.rules.errors import RejectedError, TransientError
from epicenter.sinks.notify.config import SlackSpec, TemplateSpec
from tests.support.notifications import LITTLE, MUCH, SAMPLES, a_notification, a_target
from tests.support.recorder import Answer, Recorder, recording
from tests.support.slack import Workspace, check_message, links_of, text_of

TOKEN = "xoxb-not-a-real-token"


@pytest.fixture
async def slack() -> AsyncIterator[tuple[Recorder, Workspace]]:
    async with recording() as recorder:
        recorder.answer = workspace = Workspace()
        yield recorder, workspace
        for request in recorder.requests:
            check_message(request.document)


async def bot(
    recorder: Recorder, *notifications: Any, message_ref: Any = None, template: TemplateSpec | None = None
) -> Any:
    """The message reference after all of these notifications."""
    target = a_target(SlackSpec, template, type="slack", token=TOKEN, channel="#gpu", api_url=f"{recorder.url}/api")
    try:
        for notification in notifications:
            message_ref = await target.send(notification, message_ref or {})
    finally:
        await target.close()
    return message_ref


def calls(recorder: Recorder) -> list[tuple[str, bool]]:
    """Each call's method, and whether it posted to a thread."""
    return [(request.path.rpartition("/")[2], "thread_ts" in request.document) for request in recorder.requests]


async def test_webhook_gets_one_message_per_notification(slack: Any) -> None:
    recorder, _ = slack
    target = a_target(SlackSpec, type="slack", url=f"{recorder.url}/services/T0/B0/secret")
    for notification in SAMPLES:
        assert await target.send(notification, {}) == {}
    await target.close()
    assert len(recorder.requests) == len(SAMPLES)
    first = recorder.requests[0].document
    lines = text_of(first).splitlines()
    assert lines[0].startswith("Opened, critical: GPU has fallen off the bus")
    assert [line.partition(":")[0] for line in lines[1:7]] == [
        "Cause",
        "Where",
        "Confidence",
        "Cost",
        "Next step",
        "Link",
    ]
    assert links_of(first) == [MUCH.link]
    assert links_of(recorder.requests[7].document) == []


async def test_bot_updates_one_message_with_the_chain_in_its_thread(slack: Any) -> None:
    recorder, workspace = slack
    message_ref = await bot(recorder, MUCH, a_notification("updated"), a_notification("resolved"))
    assert message_ref == {"ts": "1772442000.000000", "channel": "C0123"}
    assert calls(recorder) == [
        ("chat.postMessage", False),
        ("chat.postMessage", True),
        ("chat.update", False),
        ("chat.postMessage", True),
        ("chat.update", False),
        ("chat.postMessage", True),
    ]
    assert {request.headers["Authorization"] for request in recorder.requests} == {f"Bearer {TOKEN}"}
    head, chain, *_ = recorder.requests
    assert (head.document["channel"], chain.document["thread_ts"]) == ("#gpu", message_ref["ts"])
    assert "NVRM: Xid" in text_of(chain.document)
    assert text_of(workspace.messages[message_ref["ts"]]).startswith("Resolved, critical")


@pytest.mark.parametrize(
    ("kind", "is_shouted"),
    [("updated", False), ("resolved", False), ("repeated", True), ("escalated", True), ("reopened", True)],
)
async def test_urgent_reply_is_broadcast_to_the_channel(slack: Any, kind: str, is_shouted: bool) -> None:
    recorder, _ = slack
    await bot(recorder, MUCH, a_notification(kind))
    assert recorder.requests[-1].document["reply_broadcast"] is is_shouted


async def test_no_chain_posts_no_thread(slack: Any) -> None:
    recorder, _ = slack
    await bot(recorder, LITTLE)
    assert calls(recorder) == [("chat.postMessage", False)]


async def test_deleted_message_is_posted_again(slack: Any) -> None:
    recorder, _ = slack
    message_ref = await bot(recorder, a_notification("updated"), message_ref={"ts": "1.2", "channel": "C0123"})
    assert calls(recorder)[:2] == [("chat.update", False), ("chat.postMessage", False)]
    assert message_ref["ts"] == "1772442000.000000"


async def test_failed_thread_does_not_post_the_message_twice(slack: Any) -> None:
    recorder, workspace = slack
    workspace.fails["thread"] = "internal_error"
    target = a_target(SlackSpec, type="slack", token=TOKEN, channel="#gpu", api_url=f"{recorder.url}/api")
    with pytest.raises(TransientError, match="internal_error"):
        await target.send(MUCH, {})
    assert await target.send(MUCH, {}) == {"ts": "1772442000.000000", "channel": "C0123"}
    await target.close()
    assert calls(recorder) == [("chat.postMessage", False), ("chat.postMessage", True), ("chat.postMessage", True)]


@pytest.mark.parametrize(
    "error", ["ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"]
)
async def test_transient_errors_are_retried(slack: Any, error: str) -> None:
    recorder, workspace = slack
    workspace.fails["chat.postMessage"] = error
    with pytest.raises(TransientError, match=error):
        await bot(recorder, MUCH)


@pytest.mark.parametrize(
    "error", ["invalid_auth", "channel_not_found", "not_in_channel", "invalid_blocks", "msg_too_long"]
)
async def test_other_errors_are_rejected(slack: Any, error: str) -> None:
    recorder, workspace = slack
    workspace.fails["chat.postMessage"] = error
    with pytest.raises(RejectedError, match=f"Slack rejected chat.postMessage: {error}"):
        await bot(recorder, MUCH)


@pytest.mark.parametrize(
    "body",
    [
        *(b"<html>", b"[]", b"", b"null", b"\xff", b"[" * 1_000_000, b'{"ok": true, "ts": "1.2"' + b" " * (2 << 20)),
        *(b'{"ok": false}', b'{"ok": false, "error": ["ratelimited"]}', b'{"ok": "true"}', b'{"ok": 1, "error": null}'),
    ],
    ids=lambda body: repr(body[:30]),
)
async def test_invalid_answer_is_transient(slack: Any, body: bytes) -> None:
    recorder, _ = slack
    recorder.answer = lambda _: Answer(200, body)
    with pytest.raises(TransientError, match=r"Slack: the answer to chat\.postMessage is not"):
        await bot(recorder, MUCH)


@pytest.mark.parametrize("place", [{}, {"ts": ""}, {"ts": 5}, {"ts": None, "channel": ["C1"]}])
async def test_a_message_whose_reference_slack_leaves_out_is_sent_once_and_the_next_is_new(
    slack: Any, place: dict[str, Any]
) -> None:
    recorder, _ = slack
    recorder.answer = lambda _: Answer(200, json.dumps({"ok": True, **place}).encode())
    message_ref = await bot(recorder, MUCH)
    assert (message_ref, calls(recorder)) == ({}, [("chat.postMessage", False)])
    recorder.requests.clear()
    assert await bot(recorder, a_notification("updated"), message_ref={"ts": "", "channel": "C1"}) == {}
    assert calls(recorder) == [("chat.postMessage", False)]


async def test_a_web_page_in_the_place_of_a_webhook_is_no_acceptance(slack: Any) -> None:
    recorder, _ = slack
    recorder.answer = lambda _: Answer(200, b"\n <!DOCTYPE html><title>Sign in</title>")
    target = a_target(SlackSpec, type="slack", url=f"{recorder.url}/services/T0/B0/secret")
    with pytest.raises(TransientError, match=r"127\.0\.0\.1 answered with a web page: check url, and any proxy"):
        await target.send(MUCH, {})
    await target.close()


async def test_rate_limit_carries_retry_after(slack: Any) -> None:
    recorder, _ = slack
    recorder.answer = lambda _: Answer(429, b'{"ok": false, "error": "ratelimited"}', {"Retry-After": "30"})
    with pytest.raises(TransientError) as raised:
        await bot(recorder, MUCH)
    assert raised.value.retry_after_s == 30


async def test_log_text_in_a_template_has_no_markup(slack: Any) -> None:
    recorder, _ = slack
    evil = a_notification(title="<!channel> <https://evil.example|click> *b* `c` &lt;")
    await bot(recorder, evil, template=TemplateSpec(title="{{ incident.title }}", body="*see* {{ incident.title }}"))
    head = recorder.requests[0].document
    assert head["text"].startswith("&lt;!channel&gt; &lt;https://evil.example|click&gt;")
    assert links_of(head) == [MUCH.link]
