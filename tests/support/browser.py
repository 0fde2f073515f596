"""A real Chromium without a network; its pages record their requests and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from tests.support.programs import installed_program

PATIENCE_MS: Final = 10_000
CHROMIUM: Final = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of this machine; it resolves no other host."""
    with sync_playwright() as playwright:
        program = str(installed_program("chromium", "chromium"))
        browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM)
        yield browser
        browser.close()


class Visitor:
    """Opens pages of one address; `check` fails after an error on a page or a request to another address."""

    def __init__(self, browser: Browser, base: str):
        self.base = base
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def open(self, path: str = "", *, width: int = 1280, height: int = 900, **options: Any) -> Page:
        """A page in a new window; `options` are those of a browser context."""
        context = self._browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        context.on("request", self._on_request)
        page = context.new_page()
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))
        page.goto(self.base + path)
        return page

    def check(self) -> None:
        """The console shows no error, and every request went to this address."""
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith(self.base)] == []
        assert self.requests

    def close(self) -> None:
        """Close every window."""
        for context in self._contexts:
            context.close()

    def _on_request(self, request: Request) -> None:
        self.requests.append(request.url)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)
