"""Screenshots of the page for the documents: a simulated week in a real browser. Run `make screenshots`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from playwright.sync_api import Page, expect

from tests.support.browser import Visitor, chromium
from tests.support.page_store import BIG_JOB
from tests.support.serving import epicenter

FOLDER: Final = Path(__file__).parent
DESKTOP: Final[dict[str, Any]] = {"width": 1280, "height": 800}
LARGE: Final[dict[str, Any]] = {"width": 1440, "height": 900}
PHONE: Final[dict[str, Any]] = {"width": 390, "height": 780, "device_scale_factor": 1.5}


class Shot(NamedTuple):
    """A picture `page-<name>.png`; `path` is under the page's address, `down` how many pixels it is scrolled."""

    name: str
    path: str
    window: dict[str, Any]
    scheme: Literal["light", "dark"]
    down: int = 0


SHOTS: Final = (
    Shot("list", "", DESKTOP, "light"),
    Shot("list-dark", "", DESKTOP, "dark"),
    Shot("list-compact", "/?view=compact", LARGE, "light"),
    Shot("list-phone", "", PHONE, "light"),
    Shot("incident", "/incidents/{incident}", LARGE, "light"),
    Shot("incident-dark", "/incidents/{incident}", DESKTOP, "dark", down=620),
    Shot("incident-phone", "/incidents/{incident}", PHONE, "dark"),
    Shot("lanes-phone", "/incidents/{incident}", PHONE, "light", down=1600),
    Shot("node", "/nodes/{node}", DESKTOP, "light"),
    Shot("job", f"/jobs/default/{BIG_JOB}", DESKTOP, "light"),
    Shot("job-phone", f"/jobs/default/{BIG_JOB}", PHONE, "dark"),
)


def main() -> None:
    """Fill a store, serve it, and make every screenshot."""
    with tempfile.TemporaryDirectory(prefix="epicenter-") as name:
        folder = Path(name)
        fill = [sys.executable, "-m", "tests.support.page_store", f"chdb://{folder}/store", str(folder / "logs")]
        subprocess.run(fill, check=True, stdout=sys.stderr)
        with epicenter(folder, "page", "--data-dir", folder, "--port", 0) as base, chromium() as browser:
            visitor = Visitor(browser, base)
            incident = visitor.open().locator("#list [data-id]").first.get_attribute("data-id")
            node = visitor.open(f"/incidents/{incident}").locator(".lanes.is-broad .lane-name.is-root").text_content()
            for shot in SHOTS:
                path = shot.path.format(incident=incident, node=node)
                page = visitor.open(path, color_scheme=shot.scheme, **shot.window)
                capture(page, shot)
            visitor.close()
            visitor.check()


def capture(page: Page, shot: Shot) -> None:
    """Wait until the page is complete, and make the screenshot."""
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    page.evaluate("document.fonts.ready")
    if "/jobs/" in shot.path:
        expect(page.locator("canvas[data-drawn]")).to_be_visible()
        page.locator("canvas").focus()
        for _ in range(48):
            page.keyboard.press("ArrowRight")
    page.evaluate(f"scrollTo(0, {shot.down})")
    page.screenshot(path=FOLDER / f"page-{shot.name}.png")


if __name__ == "__main__":
    main()
