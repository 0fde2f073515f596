"""A browser signs in to a page that has a token, and is kept up to date from then on."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.serving import epicenter

pytestmark = pytest.mark.integration

TOKEN = "0123456789abcdef"


def test_a_wrong_token_is_told_and_the_right_one_leads_on(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPICENTER_PAGE_TOKEN", TOKEN)
    (tmp_path / "logs").mkdir()
    with epicenter(tmp_path, "run", tmp_path / "logs", "--data-dir", tmp_path / "data", "--page-port", 0) as base:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{base}/silences")
        for token, shown in (("wrong", "This is not the token."), (TOKEN, "Silences")):
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator("main")).to_contain_text(shown)
        assert page.url == f"{base}/silences"
        expect(page.get_by_role("status").first).to_contain_text("live")
        assert "epicenter_session" not in str(page.evaluate("document.cookie"))
        context.close()
