"""A TLS socket in front of a plain one, with a given certificate."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def tls_in_front(port: int, *certificates: Path) -> Iterator[list[int]]:
    """For each PEM file of certificate and key a port of the loopback that leads to `port`."""
    loop, ready, done, ports = asyncio.new_event_loop(), threading.Event(), asyncio.Event(), list[int]()

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

    async def serve() -> None:
        servers = []
        for certificate in certificates:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate)
            servers.append(await asyncio.start_server(lead, "127.0.0.1", 0, ssl=context))
            ports.append(servers[-1].sockets[0].getsockname()[1])
        ready.set()
        await done.wait()
        for server in servers:
            server.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="tls")
    thread.start()
    try:
        assert ready.wait(60)
        yield ports
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, ssl.SSLError):
        while block := await reader.read(1 << 16):
            writer.write(block)
            await writer.drain()
    with suppress(OSError, ssl.SSLError):
        writer.close()
