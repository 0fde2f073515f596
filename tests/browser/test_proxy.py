"""A browser uses a page with a token through a proxy that adds it; without the proxy it gets a hint."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.reverse_proxy import proxy_in_front
from tests.support.serving import epicenter

pytestmark = pytest.mark.integration

TOKEN = "0123456789abcdef"
XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."


def test_the_page_is_live_and_accepts_forms_through_a_proxy(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPICENTER_PAGE_TOKEN", TOKEN)
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1/kern.log").write_text(f"2026-03-02T09:00:00.000000+00:00 n1 kernel: [  100.000000] {XID}\n")
    with (
        epicenter(tmp_path, "run", tmp_path / "n1", "--data-dir", tmp_path / "data", "--page-port", 0) as base,
        proxy_in_front(base, TOKEN) as proxy,
    ):
        page = browser.new_page()
        refused = page.goto(f"{base}/silences")
        assert refused and refused.status == 401
        expect(page.locator("body")).to_contain_text("use the proxy that signs you in")
        page.goto(proxy)
        expect(page.locator("[data-live-state=live]")).to_contain_text("newest line")
        page.locator("main a[href^='/incidents/']").first.click()
        page.wait_for_url("**/incidents/*")
        expect(page.locator("[data-live-state=live]")).to_contain_text("newest line")
        page.get_by_role("button", name="Silence…").click()
        page.locator("dialog[open]").get_by_label("Reason").fill("drained")
        page.get_by_role("button", name="Silence", exact=True).click()
        expect(page.locator(".overline")).to_contain_text("silenced until")
        plain = browser.new_context(java_script_enabled=False).new_page()
        plain.goto(page.url)
        plain.locator(".plain-form").get_by_label("Your name").fill("ada")
        plain.locator(".plain-form").get_by_role("button", name="Acknowledge").click()
        expect(plain.locator("#head .acknowledged")).to_contain_text("Acknowledged by ada")
