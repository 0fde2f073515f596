"""The outcome of a POST: every kind of answer, and none at all, from real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate

import aiohttp
import pytest

from deploy.dev.process import free_ports
from epicenter.rules.errors import PipelineError, RejectedError, TransientError
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.notify.http import Http, retry_after_s
from tests.support.recorder import Answer, Recorder, recording

NOW_S = 1_772_442_000
QUICK = aiohttp.ClientTimeout(total=0.2)
SECRET = "s3cr3t-t0ken-in-the-path"


async def post(url: str, timeout: aiohttp.ClientTimeout = QUICK) -> bytes:
    http = Http(lambda: NOW_S * NS_PER_S, ("another-secret",), timeout)
    try:
        return await http.post(url, b"{}", {"Authorization": "Bearer t0k3n-of-ours"})
    finally:
        await http.close()


async def fault(recorder: Recorder, answer: Answer) -> PipelineError:
    recorder.answer = lambda _: answer
    with pytest.raises(PipelineError) as raised:
        await post(f"{recorder.url}/{SECRET}?key=hidden", aiohttp.ClientTimeout(total=5))
    assert len(recorder.requests) == 1, "it is the caller who tries again"
    assert raised.value.__cause__ is None and SECRET not in repr(raised.value)
    return raised.value


@asynccontextmanager
async def answering(answer: Callable[[asyncio.StreamWriter], None]) -> AsyncIterator[str]:
    """A server that reads a request and gives this answer; the connection stays open unless the answer closes it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        answer(writer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/{SECRET}"


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_success_returns_the_body(status: int) -> None:
    async with recording() as recorder:
        recorder.answer = lambda _: Answer(status, b"" if status == 204 else b"thanks")
        assert await post(recorder.url) == (b"" if status == 204 else b"thanks")
        ((_, headers, body),) = recorder.requests
        assert (headers["Content-Type"], headers["User-Agent"], body) == ("application/json", "epicenter", b"{}")


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
async def test_busy_status_is_transient(status: int) -> None:
    async with recording() as recorder:
        error = await fault(recorder, Answer(status, b"later"))
        assert isinstance(error, TransientError) and error.retry_after_s is None
        assert str(error) == f"127.0.0.1 returned {status}: later"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422])
async def test_client_error_is_rejected(status: int) -> None:
    async with recording() as recorder:
        error = await fault(recorder, Answer(status, b"no\x1b[31m"))
        assert isinstance(error, RejectedError)
        assert str(error) == rf"127.0.0.1 rejected it with {status}: no\x1b[31m"


async def test_410_advises_to_remove_the_target() -> None:
    async with recording() as recorder:
        error = await fault(recorder, Answer(410, b"bye"))
        assert isinstance(error, RejectedError) and "410 (gone): remove this target" in str(error)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(status: int) -> None:
    async with recording() as recorder, recording() as elsewhere:
        error = await fault(recorder, Answer(status, b"", {"Location": elsewhere.url}))
        assert isinstance(error, RejectedError) and "redirects" in str(error)
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [
        ("17", 17.0),
        (" 0 ", 0.0),
        (formatdate(NOW_S + 90, usegmt=True), 90.0),
        (formatdate(NOW_S - 90, usegmt=True), 0.0),
        ("999999999", 86_400.0),
        (formatdate(NOW_S + 10**7, usegmt=True), 86_400.0),
        ("soon", None),
        ("-5", None),
        ("9" * 5000, None),
        ("nan", None),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_retry_after_is_seconds_or_a_date(header: str, wait_s: float | None) -> None:
    assert retry_after_s(header, NOW_S * NS_PER_S) == wait_s
    async with recording() as recorder:
        for status in (429, 503):
            recorder.requests.clear()
            error = await fault(recorder, Answer(status, b"", {"Retry-After": header, "Date": formatdate(NOW_S)}))
            assert isinstance(error, TransientError) and error.retry_after_s == wait_s


@pytest.mark.parametrize("days", [1, -1, 4, -4])
async def test_a_date_to_retry_after_counts_from_the_date_of_the_answer_not_from_our_clock(days: int) -> None:
    theirs_s = NOW_S + days * 86_400
    headers = {"Date": formatdate(theirs_s, usegmt=True), "Retry-After": formatdate(theirs_s + 90, usegmt=True)}
    async with recording() as recorder:
        error = await fault(recorder, Answer(429, b"", headers))
    assert isinstance(error, TransientError) and error.retry_after_s == 90


async def test_error_shows_the_answer_cut_and_redacted() -> None:
    async with recording() as recorder:
        body = f"no such hook: /{SECRET}?key=hidden another-secret t0k3n-of-ours ".encode() + b"x" * 100_000
        message = str(await fault(recorder, Answer(404, body)))
        assert "no such hook: (secret)?(secret) (secret) (secret) xxx" in message
        assert len(message) < 240


async def test_refused_connection_is_transient() -> None:
    with pytest.raises(
        TransientError, match=r"127.0.0.1 is unreachable: ClientConnectorError: Connect call failed|refused"
    ):
        await post(f"http://127.0.0.1:{free_ports(1)[0]}/{SECRET}")


async def test_unknown_host_is_transient() -> None:
    with pytest.raises(TransientError, match=r"nobody\.invalid is unreachable: ClientConnector") as raised:
        await post(f"http://nobody.invalid/{SECRET}", aiohttp.ClientTimeout(total=10))
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\xff\x16\x03\x01\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"",
    ],
    ids=["another protocol", "bytes", "half an answer", "no gzip", "no chunk", "nothing"],
)
async def test_invalid_or_dropped_answer_is_transient(response: bytes) -> None:
    def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(response)
        writer.write_eof()

    async with answering(answer) as url:
        with pytest.raises(TransientError, match=r"127\.0\.0\.1 is unreachable") as raised:
            await post(url, aiohttp.ClientTimeout(total=5))
        assert SECRET not in str(raised.value)


async def test_reset_connection_is_transient() -> None:
    async with answering(lambda writer: writer.transport.abort()) as url:
        with pytest.raises(TransientError, match=r"127\.0\.0\.1 is unreachable"):
            await post(url)


@pytest.mark.parametrize(
    "response", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nslow"], ids=["no word", "half a word"]
)
async def test_slow_server_is_transient_after_the_timeout(response: bytes) -> None:
    async with answering(lambda writer: writer.write(response)) as url:
        with pytest.raises(TransientError, match=r"127\.0\.0\.1 is unreachable: TimeoutError|ServerTimeoutError"):
            await post(url)
