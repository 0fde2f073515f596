"""`epicenter page`: the local page over any store, and how a page is served on the loopback."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from epicenter.rules.errors import ConfigError, InputError, TransientError
from epicenter.sinks.clickhouse.errors import StoreDamagedError, StoreInUseError
from epicenter.sinks.clickhouse.reading import newest_change
from epicenter.sinks.net.loopback import is_loopback
from epicenter.sinks.net.proof import PROOF_PATH, is_nonce, proof
from epicenter.sinks.page import Feed, Watcher, page
from epicenter.sinks.page.dead_letters import dead_letter_routes
from epicenter.stream.local.store_metrics import StoreMetrics
from epicenter.stream.process.logs import print_message
from epicenter.stream.process.page_token import checked_token
from epicenter.stream.process.shutdown import stop_on_signals
from epicenter.stream.rule_tools.reload import running
from epicenter.stream.settings import Settings
from epicenter.stream.store.running_page import PageNote, remove_note
from epicenter.stream.store.thread import Store

POLL_EVERY_S: Final = 2.0
MAX_CLOSE_S: Final = 2.0
"""A browser that stops reading its answer does not delay shutdown for longer."""


def serve_page(settings: Settings) -> None:
    """Serve until a signal arrives; an unreachable store is retried.

    Raises:
        InputError: there is no embedded store in the folder.
        StoreInUseError: another process has it open.
        StoreDamagedError: its files are damaged.
        ConfigError: the DSN, the user or the password is wrong.
    """
    folder = settings.data_dir / "store"
    if not settings.store and not folder.exists():
        raise InputError(
            f"{settings.data_dir}: no store here yet: start `epicenter run`, or give --store or --data-dir"
        )
    asyncio.run(_serve(settings, print_message))


async def _serve(settings: Settings, report: Callable[[str], None]) -> None:
    store, feed, stop = Store(settings.store_dsn), Feed(), asyncio.Event()
    stop_on_signals(stop.set)
    watcher = Watcher(feed, lambda: store.query(newest_change), report)
    token = checked_token(settings, "page")
    application = page(store.query, lambda: _health(watcher, store), feed, token)
    application.add_routes(dead_letter_routes(store.list_dead_letters, store.get_dead_letter))
    application.add_routes([metrics_route(StoreMetrics(store).text)])
    noted_in = None if settings.store else settings.data_dir
    try:
        await _refuse_unless_temporary(store)
        async with served(application, settings, noted_in) as url:
            report(f"incidents: {url}")
            async with running(watcher.follow(POLL_EVERY_S)):
                await stop.wait()
            await store.close()
    finally:
        await store.close()


def _health(watcher: Watcher, store: Store) -> dict[str, object]:
    away = {"away_since_ns": watcher.away_since_ns} if watcher.away_since_ns else {}
    return {"status": watcher.status, "store": store.address, **away}


def metrics_route(text: Callable[[], Awaitable[bytes]]) -> web.RouteDef:
    """The route `/metrics`. It has the guards of the page: on the loopback this machine, else the page's token."""

    async def show_metrics(request: web.Request) -> web.Response:
        """Metrics in Prometheus' text format."""
        return web.Response(body=await text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return web.get("/metrics", show_metrics)


async def _refuse_unless_temporary(store: Store) -> None:
    """Raise at once for a wrong DSN or an embedded store in use or damaged; an unreachable server may come back."""
    try:
        await store.query(newest_change)
    except (StoreInUseError, StoreDamagedError):
        raise
    except TransientError:
        return


@asynccontextmanager
async def served(application: web.Application, settings: Settings, noted_in: Path | None) -> AsyncIterator[str]:
    """Serve, on the loopback on any free port when the wanted one is taken; commands find the note in `noted_in`.

    Raises:
        ConfigError: there is no such address, or its port is taken.
    """
    key = token_hex(32)
    application.add_routes([_proof_route(key)])
    runner = web.AppRunner(application, shutdown_timeout=MAX_CLOSE_S)
    remove_note(noted_in)
    await runner.setup()
    try:
        url = await _listen(runner, settings.page_host, settings.page_port)
        if noted_in:
            _write_note(PageNote(url, key), noted_in)
        yield url
    finally:
        remove_note(noted_in)
        await runner.cleanup()


def _write_note(note: PageNote, folder: Path) -> None:
    try:
        note.write(folder)
    except OSError as error:
        print_message(f"{folder}: can't be written, so commands here don't find this page: {error.strerror}")


def _proof_route(key: str) -> web.RouteDef:
    """The route by which the page proves that it wrote the note with this key; it needs no token."""

    async def prove(request: web.Request) -> web.Response:
        """The proof for the `nonce` of a command on this machine, as text."""
        nonce = request.query.get("nonce", "")
        return web.Response(text=proof(key, nonce)) if is_nonce(nonce) else web.Response(status=400)

    return web.get(PROOF_PATH, prove)


async def _listen(runner: web.AppRunner, host: str, port: int) -> str:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        refused = f"page_host, page_port: {host}:{port}: can't listen there: {os.strerror(error.errno or errno.EIO)}"
        if not port or not is_loopback(host):
            raise ConfigError([refused]) from error
        print_message(f"{refused}; any free port serves the page")
        return await _listen(runner, host, 0)
    address, chosen = runner.addresses[0][:2]
    reached = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address, f"[{address}]" if ":" in address else address)
    return f"http://{reached}:{chosen}/"
