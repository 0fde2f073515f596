"""A reverse proxy between browsers and a page with a token: it adds the bearer token and passes on the rest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

from aiohttp import ClientSession, ClientTimeout, web

SESSION = web.AppKey("session", ClientSession)
HOP_BY_HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length"}


def proxy_to(base: str, token: str, *, passes_host: bool = True) -> web.Application:
    """Every client counts as signed in; answers are streamed as they arrive."""

    async def forward(request: web.Request) -> web.StreamResponse:
        left_out = HOP_BY_HOP_HEADERS | ({"host"} if not passes_host else set())
        headers = {name: value for name, value in request.headers.items() if name.lower() not in left_out}
        headers["Authorization"] = f"Bearer {token}"
        body = await request.read()
        async with request.app[SESSION].request(
            request.method, f"{base}{request.rel_url}", headers=headers, data=body, allow_redirects=False
        ) as inner:
            passed_on = {name: value for name, value in inner.headers.items() if name.lower() not in HOP_BY_HOP_HEADERS}
            answer = web.StreamResponse(status=inner.status, headers=passed_on)
            await answer.prepare(request)
            with suppress(ConnectionError):
                async for chunk in inner.content.iter_any():
                    await answer.write(chunk)
        return answer

    async def sessions(application: web.Application) -> AsyncIterator[None]:
        async with ClientSession(timeout=ClientTimeout(total=None), auto_decompress=False) as session:
            application[SESSION] = session
            yield

    application = web.Application()
    application.cleanup_ctx.append(sessions)
    application.router.add_route("*", "/{path:.*}", forward)
    return application


@contextmanager
def proxy_in_front(base: str, token: str) -> Iterator[str]:
    """Runs the proxy on a loopback port in a thread; gives its address."""
    loop, ready, done, address = asyncio.new_event_loop(), threading.Event(), asyncio.Event(), list[str]()

    async def serve() -> None:
        runner = web.AppRunner(proxy_to(base, token), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        ready.set()
        await done.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="proxy")
    thread.start()
    assert ready.wait(10)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()
