"""Apprise targets: the real apprise library, its JSON service on a real server."""

from __future__ import annotations

import asyncio
import logging
from time import time_ns

import pytest

from deploy.dev.process import free_ports
from epicenter.rules.errors import TransientError
from epicenter.sinks.notify.apprise import AppriseTarget
from epicenter.sinks.notify.config import AppriseSpec
from epicenter.sinks.notify.message import without_markup
from epicenter.sinks.notify.target import Target
from epicenter.sinks.notify.templates import Writer
from tests.support.notifications import MUCH, a_notification, a_target
from tests.support.recorder import Answer, Recorder, recording

SECRET = "s3cr3t"


def tail(recorder: Recorder) -> Target:
    return a_target(AppriseSpec, type="apprise", url=recorder.url.replace("http://", f"json://me:{SECRET}@"))


async def test_title_and_body_are_sent() -> None:
    async with recording() as recorder:
        target = tail(recorder)
        assert await target.send(MUCH, {}) == {}
        await target.send(a_notification("resolved"), {})
        await target.refresh([MUCH])
        await target.close()
        first, last = (request.document for request in recorder.requests)
    assert first["title"].startswith("Opened, critical: GPU has fallen off the bus")
    assert first["message"].splitlines()[0].startswith("Cause: xid-79")
    assert f"Link: {MUCH.link}" in first["message"]
    assert (first["type"], last["type"]) == ("failure", "success")


async def test_log_text_has_no_markup() -> None:
    async with recording() as recorder:
        evil = r"@everyone <!channel> [x](https://evil.example) *b* \n"
        await tail(recorder).send(a_notification(title=evil), {})
        assert (
            "＠everyone ＜!channel＞ ［x］(https：//evil.example) ＊b＊ ＼n" in recorder.requests[0].document["title"]
        )


@pytest.mark.parametrize("status", [400, 429, 500])
async def test_refusing_service_is_transient(status: int, caplog: pytest.LogCaptureFixture) -> None:
    async with recording() as recorder:
        recorder.answer = lambda _: Answer(status, SECRET.encode())
        with (
            caplog.at_level(logging.DEBUG),
            pytest.raises(TransientError, match="json: the service did not accept the notification"),
        ):
            await tail(recorder).send(MUCH, {})
    assert SECRET not in caplog.text


async def test_refused_connection_is_transient(caplog: pytest.LogCaptureFixture) -> None:
    target = a_target(AppriseSpec, type="apprise", url=f"json://me:{SECRET}@127.0.0.1:{free_ports(1)[0]}/{SECRET}")
    with pytest.raises(TransientError, match="json: the service did not accept the notification"):
        await target.send(MUCH, {})
    assert SECRET not in caplog.text


async def test_slow_service_is_transient_after_the_timeout() -> None:
    release = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await release.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        spec = AppriseSpec.model_validate({"type": "apprise", "url": f"json://127.0.0.1:{port}/"})
        target = AppriseTarget("ops", spec, Writer("ops", None, without_markup), time_ns, timeout_s=0.2)
        with pytest.raises(TransientError, match="json: no answer within"):
            await target.send(MUCH, {})
        release.set()
