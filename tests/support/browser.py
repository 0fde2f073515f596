"""A real Chromium without a network, and pages of it that keep account of what they ask for and complain of."""

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
    """The browser of this machine; it finds no other machine."""
    with sync_playwright() as playwright:
        program = str(installed_program("chromium", "chromium"))
        browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM)
        yield browser
        browser.close()


class Visitor:
    """Opens pages of one address; `check` fails when one complained or asked for anything elsewhere."""

    def __init__(self, browser: Browser, base: str):
        self.base = base
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def open(self, path: str = "", *, width: int = 1280, height: int = 900, **options: Any) -> Page:
        """A page in a window of its own; `options` are those of a browser context."""
        context = self._browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        context.on("request", self._note)
        page = context.new_page()
        page.on("console", self._listen)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.goto(self.base + path)
        return page

    def check(self) -> None:
        """Nothing was said on the console, and nothing was asked of anybody else."""
        assert self.complaints == []
        assert [url for url in self.asked if not url.startswith(self.base)] == []
        assert self.asked

    def close(self) -> None:
        """Close every window."""
        for context in self._contexts:
            context.close()

    def _note(self, request: Request) -> None:
        self.asked.append(request.url)

    def _listen(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)
