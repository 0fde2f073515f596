"""A server at a broker's address that is no broker is reported in a line, within a bound."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic

import pytest
import trustme

from epicenter.rules.errors import ConfigError, PipelineError, TransientError
from epicenter.stream.kafka import preflight
from epicenter.stream.kafka.preflight import reach
from epicenter.stream.load_settings import load_settings

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TLS = {"kafka_security": "ssl"}


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    writer.close()


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xff")
    await reader.read()


@asynccontextmanager
async def server(answer: Answer, **given: object) -> AsyncIterator[str]:
    made = await asyncio.start_server(answer, "127.0.0.1", 0, **given)  # type: ignore[arg-type]
    yield f"127.0.0.1:{made.sockets[0].getsockname()[1]}"
    made.close()


@pytest.mark.parametrize("answer", [silent, closing, web, garbage], ids=lambda answer: answer.__name__)
@pytest.mark.parametrize("security", [{}, TLS], ids=["plaintext", "tls"])
async def test_a_server_that_is_no_broker_is_reported(
    answer: Answer, security: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "ATTEMPT_S", 0.5)
    monkeypatch.setattr(preflight, "ANSWER_S", 0.4)
    begun_s = monotonic()
    async with server(answer) as address:
        with pytest.raises(PipelineError) as raised:
            await reach(load_settings(kafka=address, **security))
    text = str(raised.value)
    assert address in text and "\n" not in text
    assert isinstance(raised.value, TransientError | ConfigError)
    assert monotonic() - begun_s < 3 * 0.5 + 1


async def test_a_broker_that_is_silent_after_the_tls_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "ATTEMPT_S", 0.5)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with server(silent, ssl=context) as address:
        with pytest.raises(ConfigError, match="it accepts only TLS: set kafka_security to ssl or sasl_ssl"):
            await reach(load_settings(kafka=address))
