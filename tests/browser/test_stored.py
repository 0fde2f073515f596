"""A browser at `epicenter page` over a ClickHouse that holds a week of failures and a job of many ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from deploy.dev.clickhouse import DevClickHouse, dev_clickhouse
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import JobEnd, JobPhase
from epicenter.sinks.clickhouse.client import connect
from tests.support.browser import Visitor
from tests.support.page_store import BIG_JOB, add_job, add_jobs_in_each_state, add_state, fill
from tests.support.serving import epicenter
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

HUGE_JOB, HUGE_RANKS = "9002", 16_384
MAX_ELEMENTS = 1_500
PATIENCE_MS = 20_000


class Stored:
    """The server, the page over it, and the incidents in it, the open one last."""

    def __init__(self, server: DevClickHouse, base: str, incidents: list[Incident]):
        self.server = server
        self.base = base
        self.open = next(incident for incident in incidents if incident.status == "open")
        self.count = len(incidents)

    def paths(self) -> dict[str, str]:
        """A page of each kind."""
        job = f"/jobs/default/{BIG_JOB}"
        incident = f"/incidents/{self.open.incident_id}"
        node = f"/nodes/{self.open.root_cause.node}"
        lists = {"list": "", "compact": "/?view=compact", "groups": "/?group=node&view=compact"}
        return {
            **lists,
            "incident": incident,
            "node": node,
            "jobs": "/jobs",
            "job": job,
            "silences": "/silences",
            "unnamed": "/unnamed",
        }


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("stored")
    with dev_clickhouse(folder) as server:
        client = connect(server.dsn)
        incidents = fill(client, folder / "logs")
        add_job(client, HUGE_JOB, HUGE_RANKS)
        add_jobs_in_each_state(client)
        client.close()
        with epicenter(folder, "page", "--store", server.dsn, "--port", 0) as base:
            yield Stored(server, base, incidents)


@pytest.fixture
def visitor(stored: Stored, visit: Callable[[str], Visitor]) -> Visitor:
    return visit(stored.base)


KINDS = ["list", "compact", "groups", "incident", "node", "jobs", "job", "silences", "unnamed"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_passes_axe_and_is_no_wider_than_the_window(stored: Stored, visitor: Visitor, kind: str) -> None:
    page = visitor.open(stored.paths()[kind])
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    for width in (768, 390, 360):
        page.set_viewport_size({"width": width, "height": 780})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1600, 900)])
def test_what_to_do_and_how_it_spread_are_above_the_fold(
    stored: Stored, visitor: Visitor, width: int, height: int
) -> None:
    page = visitor.open(stored.paths()["incident"], width=width, height=height)
    for part in (page.locator(".do"), page.locator(".lanes.is-broad svg")):
        box = part.bounding_box()
        assert box and box["y"] + box["height"] <= height


def test_node_names_lead_to_the_page_of_the_node(stored: Stored, visitor: Visitor) -> None:
    node = stored.open.root_cause.node
    page = visitor.open(stored.paths()["incident"])
    page.locator(".lanes.is-broad a").filter(has_text=node).click()
    page.wait_for_url(f"**/nodes/{node}")
    expect(page.get_by_role("heading", level=1)).to_have_text(node)
    page.get_by_role("link", name=stored.open.title).click()
    page.wait_for_url(f"**/incidents/{stored.open.incident_id}")


def test_dialogs_pass_axe(stored: Stored, visitor: Visitor) -> None:
    page = visitor.open(stored.paths()["incident"])
    for name in ("acknowledge", "wrong", "silence", "help"):
        page.locator(f"[data-open={name}]").click()
        found = Axe().run(page, f"#{name}")
        assert found.violations_count == 0, found.generate_report()
        page.keyboard.press("Escape")


def test_the_silence_form_shows_what_it_mutes(stored: Stored, visitor: Visitor) -> None:
    root = stored.open.root_cause
    page = visitor.open(stored.paths()["incident"])
    page.get_by_role("button", name="Silence…").click()
    dialog, effect = page.locator("#silence"), page.locator("[data-mutes]")
    expect(effect).to_contain_text(f"of class {root.failure_class} on node {root.node}")
    dialog.get_by_label("node").fill("")
    dialog.get_by_label("job").fill("")
    expect(effect).to_have_text(f"Silences every incident of class {root.failure_class} in cluster default.")
    dialog.get_by_label("cluster").fill("")
    expect(effect).to_have_text(f"Silences every incident of class {root.failure_class} in every cluster.")
    dialog.get_by_label("class").fill("")
    expect(effect).to_contain_text("you can't silence a whole cluster")


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("node:{node} xid-79", "on {node}"),
        ("job:7801", "fallen off the bus"),
        ("class:host-oom-kill", "Host out of memory"),
        ("OOM-killer invoked", "Host out of memory"),
    ],
)
def test_search_finds_by_node_job_class_and_text(stored: Stored, visitor: Visitor, words: str, title: str) -> None:
    node = stored.open.root_cause.node
    page = visitor.open()
    page.keyboard.press("/")
    page.keyboard.type(words.format(node=node))
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=*")
    rows = page.locator("#list [data-id]")
    expect(rows.first).to_contain_text(title.format(node=node))
    expect(page.locator(".summary")).to_contain_text("match")
    assert 1 <= rows.count() < stored.count


def test_filters_are_in_the_address_and_an_empty_result_is_stated(stored: Stored, visitor: Visitor) -> None:
    page = visitor.open()
    page.get_by_label("Status").select_option("open")
    page.wait_for_url("**/?status=open")
    expect(page.locator("#list [data-id]")).to_have_count(1)
    page.locator("select[name=class]").select_option("host-oom-kill")
    page.wait_for_url("**status=open&class=host-oom-kill")
    expect(page.get_by_role("heading", name="No matching incidents")).to_be_visible()


def test_every_page_is_reached_by_keyboard(stored: Stored, visitor: Visitor) -> None:
    page = visitor.open()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("[data-row]").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("[data-row]").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/incidents/{stored.open.incident_id}")
    for keys, path in (("gj", "/jobs"), ("gs", "/silences"), ("gi", "/")):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_url(stored.base + path)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.reload()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_system_theme_is_used_until_another_is_chosen(visitor: Visitor, scheme: str) -> None:
    page = visitor.open(color_scheme=scheme)
    is_dark = scheme == "dark"
    assert _is_dark(page) == is_dark
    page.get_by_role("button", name="Toggle theme").click()
    assert _is_dark(page) != is_dark
    page.reload()
    assert _is_dark(page) != is_dark
    page.keyboard.press("t")
    assert _is_dark(page) == is_dark


def _is_dark(page: Page) -> bool:
    red = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
    return int(red) < 128


@pytest.mark.parametrize(("job", "ranks"), [(BIG_JOB, 4_096), (HUGE_JOB, HUGE_RANKS)])
def test_a_job_with_many_ranks_stays_usable(visitor: Visitor, job: str, ranks: int) -> None:
    page = visitor.open(f"/jobs/default/{job}")
    grid = page.locator("canvas")
    expect(grid).to_have_attribute("data-drawn", str(ranks))
    assert page.evaluate("document.querySelectorAll('*').length") < MAX_ELEMENTS
    cell = page.locator(".grid-cell")
    grid.focus()
    expect(cell).to_contain_text("Rank 0: in step · gpu-0001 · GPU 0000:1b:00 · step 18,200 · last seen")
    page.keyboard.press("ArrowRight")
    expect(cell).to_contain_text("Rank 1: in step")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(cell).to_contain_text("Rank 1: in step")
    page.keyboard.press("End")
    expect(cell).to_contain_text(f"Rank {ranks - 1}: no logs yet")
    page.set_viewport_size({"width": 360, "height": 780})
    page.keyboard.press("Home")
    for _ in range(48):
        page.keyboard.press("ArrowRight")
    expect(cell).to_contain_text("Rank 48: logs missing · gpu-0007")
    grid.hover(position={"x": 5, "y": 24})
    expect(cell).to_contain_text("Rank 0")
    worst = page.get_by_role("region", name="Ranks that need attention").get_by_role("row")
    expect(worst.nth(1)).to_contain_text("48")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize(("job", "ranks"), [(BIG_JOB, 4_096), (HUGE_JOB, HUGE_RANKS)])
def test_the_last_row_of_a_grid_is_whole(visitor: Visitor, job: str, ranks: int, width: int, height: int) -> None:
    page = visitor.open(f"/jobs/default/{job}", width=width, height=height)
    expect(page.locator("canvas")).to_have_attribute("data-drawn", str(ranks))
    assert _drawn_rows(page, "4", "6") == (False, True)
    page.locator(".grid-scroll").evaluate(
        "(box) => new Promise((done) => { box.onscroll = done; box.scrollTop = 1e9 })"
    )
    page.evaluate("new Promise(requestAnimationFrame)")
    assert _drawn_rows(page, "4", "canvas.clientHeight - 8") == (False, False)


_PIXELS = """(() => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  return copy;
})()"""


def _drawn_rows(page: Page, top: str, below: str) -> tuple[bool, bool]:
    """Whether anything is drawn above `top`, and from `below` on, in pixels of the canvas."""
    drawn = page.evaluate(
        f"""(() => {{
          const canvas = document.querySelector("canvas");
          const pixels = {_PIXELS};
          const isDrawn = (y, height) => pixels.getImageData(0, y, canvas.width, height).data.some((value) => value);
          return [isDrawn(0, {top}), isDrawn({below}, canvas.clientHeight - ({below}))];
        }})()"""
    )
    return drawn[0], drawn[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_next_bad_rank_is_a_key_and_a_button_away(visitor: Visitor, width: int, height: int, theme: str) -> None:
    options = {"color_scheme": theme, "has_touch": width < 1_000}
    page = visitor.open(f"/jobs/default/{HUGE_JOB}", width=width, height=height, **options)
    expect(page.locator("canvas")).to_have_attribute("data-drawn", str(HUGE_RANKS))
    cell = page.locator(".grid-cell")
    page.keyboard.press("b")
    expect(cell).to_contain_text("1 of 17 · Rank 48: logs missing · gpu-0007")
    page.keyboard.press("b")
    expect(cell).to_contain_text("2 of 17 · Rank 49")
    for _ in range(7):
        page.get_by_role("button", name="Next bad rank").click()
    expect(cell).to_contain_text("9 of 17 · Rank 152: behind · gpu-0020")
    for _ in range(8):
        page.keyboard.press("b")
    expect(cell).to_contain_text(f"17 of 17 · Rank {HUGE_RANKS - 1}: no logs yet")
    assert page.locator(".grid-scroll").evaluate("(box) => box.scrollTop") > 0
    page.keyboard.press("b")
    expect(cell).to_contain_text("1 of 17 · Rank 48")
    cell.evaluate("(text) => { text.textContent = '' }")
    page.keyboard.press("t")
    expect(cell).to_contain_text("1 of 17 · Rank 48")
    assert page.locator("html").evaluate("(html) => html.scrollWidth - html.clientWidth") == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_rank_that_stopped_first_is_the_only_red_cell(visitor: Visitor, theme: str) -> None:
    page = visitor.open("/jobs/default/stalled", color_scheme=theme)
    expect(page.locator("canvas")).to_have_attribute("data-drawn", "64")
    legend = page.locator(".grid-legend .is-stalled")

    def red_cells() -> list[int]:
        red = legend.evaluate("(cell) => getComputedStyle(cell).backgroundColor")
        return [rank for rank in range(8) if _colour(page, rank) == red]

    eventually(lambda: red_cells() == [5], 30, "only the rank that stopped first in red")


def test_a_changed_state_is_drawn_without_a_reload(stored: Stored, visitor: Visitor) -> None:
    client = connect(stored.server.dsn)
    add_job(client, "changing", 64)
    page = visitor.open("/jobs/default/changing")
    expect(page.locator("canvas")).to_have_attribute("data-drawn", "64")
    expect(page.locator(".grid-legend")).to_contain_text("in step")
    before = _colour(page, 0)
    page.evaluate("window.isFirstLoad = true")
    add_state(client, "changing", JobPhase.ENDED, end=JobEnd.FAILED)
    client.close()
    expect(page.locator("#job")).to_contain_text("Ended: failed", timeout=PATIENCE_MS)
    eventually(lambda: _colour(page, 0) != before, 30, "the grid is drawn anew")
    assert page.evaluate("window.isFirstLoad")


def test_ranks_that_log_without_steps_are_no_alarm(stored: Stored, visitor: Visitor) -> None:
    page = visitor.open("/jobs/default/one-rank", color_scheme="light")
    expect(page.locator("canvas")).to_have_attribute("data-drawn", "64")
    expect(page.locator(".grid-legend")).to_contain_text("logs, no steps")
    red, green, blue = map(int, _colour(page, 1, 5)[4:-1].split(","))
    assert (red, green, blue) != (0, 0, 0) and max(red, green, blue) - min(red, green, blue) < 24
    page.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".grid-cell")).to_contain_text("Rank 1: logs, no steps · gpu-0001")


def test_every_cell_of_an_ended_job_is_grey(visitor: Visitor) -> None:
    page = visitor.open("/jobs/default/ended", color_scheme="light")
    expect(page.locator("canvas")).to_have_attribute("data-drawn", "64")
    expect(page.locator("#job")).to_contain_text("Ended: failed")
    shades = [[int(part) for part in _colour(page, rank)[4:-1].split(",")] for rank in range(8)]
    assert all(max(shade) - min(shade) < 24 for shade in shades)
    expect(page.get_by_role("button", name="Next bad rank")).to_be_hidden()


def _colour(page: Page, rank: int, down: int = 8) -> str:
    """The colour in the middle of a cell of the first node, so many pixels under its top, as style sheets write it."""
    x, y = 1 + 20 * rank + 8, 6 + 13 + down
    red, green, blue = page.evaluate(
        f"(() => {{ const canvas = document.querySelector('canvas');"
        f" return [...{_PIXELS}.getImageData({x}, {y}, 1, 1).data].slice(0, 3) }})()"
    )
    return f"rgb({red}, {green}, {blue})"


def test_the_state_of_each_job_is_in_the_list(visitor: Visitor) -> None:
    page = visitor.open("/jobs")
    for job, state in (
        ("stalled", "Stalled rank 5 on gpu-0001 stopped first"),
        ("one-rank", "In step"),
        ("ended", "Ended: failed"),
        ("never-started", "Never started"),
        ("not-known", "Not known"),
        (BIG_JOB, "Behind"),
    ):
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=job, exact=True))
        expect(row.locator(".state")).to_have_text(state)


def test_incidents_are_found_and_shown_without_scripts(stored: Stored, visitor: Visitor) -> None:
    page = visitor.open(java_script_enabled=False)
    page.get_by_label("Search").fill("class:host-oom-kill")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#list [data-id]")).to_have_count(1)
    page.get_by_role("link", name="Host out of memory").click()
    expect(page.locator(".lead")).to_contain_text("came first")


def test_an_incident_is_acknowledged_without_scripts(stored: Stored, visitor: Visitor) -> None:
    page = visitor.open(stored.paths()["incident"], java_script_enabled=False)
    page.locator(".plain-form").get_by_label("Your name").fill("ada")
    page.locator(".plain-form").get_by_label("Note").fill("case 4711")
    page.locator(".plain-form").get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#head .acknowledged")).to_contain_text("Acknowledged by ada")
    expect(page.locator("#head .acknowledged")).to_contain_text("UTC: case 4711")
    page.get_by_role("button", name="Withdraw the acknowledgement").click()
    expect(page.locator("#head .acknowledged")).to_have_count(0)


def test_similar_incidents_are_shown_with_their_feedback(stored: Stored, visitor: Visitor) -> None:
    page = visitor.open(stored.paths()["incident"])
    similar = page.locator(".similar li")
    expect(similar.first).to_contain_text("same class, node")
    expect(page.locator(".similar")).to_contain_text("right")
    expect(page.locator(".overline")).to_contain_text("silenced until")


def test_a_form_that_is_too_long_is_refused_with_the_limit(stored: Stored, visitor: Visitor) -> None:
    page = visitor.open(stored.paths()["incident"])
    page.get_by_role("button", name="Silence…").click()
    reason = page.locator("#silence").get_by_label("Reason")
    reason.evaluate("(field) => field.removeAttribute('maxlength')")
    reason.fill("x" * 20_000)
    page.get_by_role("button", name="Silence", exact=True).click()
    expect(page.get_by_role("alert")).to_have_text("request too long: send at most 16 KiB")
    visitor.errors = [error for error in visitor.errors if "413" not in error]


def test_an_error_is_shown_and_not_copied(stored: Stored, visitor: Visitor) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    page = visitor.open(stored.paths()["incident"], permissions=permissions)
    page.evaluate("navigator.clipboard.writeText('as before')")
    stored.server.stop()
    with page.expect_response("**/api/incidents/*.md") as response:
        page.get_by_role("button", name="Copy Markdown").click()
    expect(page.locator("[data-toast]")).to_have_text(response.value.json()["error"])
    stored.server.start()
    eventually(lambda: page.request.get(f"{stored.base}/healthz").ok, 20, "the page's connection to the store")
    assert page.evaluate("navigator.clipboard.readText()") == "as before"
    visitor.errors = [error for error in visitor.errors if "503 (Service Unavailable)" not in error]


def test_an_unreachable_store_is_shown_until_it_answers_again(stored: Stored, visitor: Visitor) -> None:
    page = visitor.open()
    expect(page.locator("#list [data-id]").first).to_be_visible()
    page.wait_for_function(
        "fetch('/healthz').then((answer) => answer.ok)", timeout=PATIENCE_MS
    )  # the watcher has seen the restart
    stored.server.stop()
    expect(page.locator("[data-banner]")).to_contain_text("The store is not responding", timeout=PATIENCE_MS)
    expect(page.locator("#list [data-id]").first).to_be_visible()
    other = visitor.open("/jobs")
    expect(other.get_by_role("heading", name="The store is not responding")).to_be_visible()
    stored.server.start()
    expect(other.get_by_role("heading", name="Jobs")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("[data-banner]")).to_be_hidden(timeout=PATIENCE_MS)
    visitor.errors = [error for error in visitor.errors if "503 (Service Unavailable)" not in error]
