"""One browser a test file: Playwright's loop must not outlive it, because other tests have their own loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.browser import Visitor, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[[str], Visitor]]:
    """Makes visitors; at the end of the test each is closed and checked."""
    made: list[Visitor] = []

    def make(base: str) -> Visitor:
        made.append(Visitor(browser, base))
        return made[-1]

    yield make
    for visitor in made:
        visitor.close()
        visitor.check()
