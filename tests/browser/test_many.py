"""A browser at the list of 500 incidents, and at an incident while the browser refuses to copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import time_ns

import msgspec
import pytest
from playwright.sync_api import Page, Route, expect

from deploy.dev.clickhouse import DevClickHouse, dev_clickhouse
from epicenter.rules.model.incident import Command, Incident
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from tests.support.browser import Visitor
from tests.support.page_store import many_incidents
from tests.support.serving import epicenter

pytestmark = pytest.mark.integration

HOUR_NS = 3600 * NS_PER_S
COMMAND = "scontrol update nodename=gpu-001 state=drain reason='xid 79 & more'"
REFUSING = "void (navigator.clipboard.writeText = () => Promise.reject(new DOMException('denied', 'NotAllowedError')))"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevClickHouse]:
    with dev_clickhouse(tmp_path_factory.mktemp("many")) as server:
        yield server


@pytest.fixture(scope="module")
def base(server: DevClickHouse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    incidents = many_incidents(500, time_ns(), 1.4 * HOUR_NS)
    incidents[0] = msgspec.structs.replace(
        incidents[0],
        commands=(Command("Drain gpu-001", "slurm", COMMAND),),
        next_steps=("Then run `nvidia-smi -q` there.",),
    )
    with served(server, "epicenter", incidents, tmp_path_factory) as address:
        yield address


def served(server: DevClickHouse, database: str, incidents: list[Incident], folders: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """A page over a database with these incidents."""
    dsn = f"{server.dsn.rsplit('/', 1)[0]}/{database}"
    client = connect(dsn)
    migrate(client)
    ClickHouseSink(client).write(incidents=incidents)
    client.close()
    return epicenter(folders.mktemp(database), "page", "--store", dsn, "--port", 0)


@pytest.fixture
def visitor(base: str, visit: Callable[[str], Visitor]) -> Visitor:
    return visit(base)


def rows_on_screen(page: Page) -> int:
    return int(
        page.evaluate(
            "[...document.querySelectorAll('#list [data-id]')]"
            ".filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length"
        )
    )


def test_compact_list_shows_25_rows_a_screen_and_is_remembered(visitor: Visitor) -> None:
    page = visitor.open(width=1440, height=900)
    assert rows_on_screen(page) < 12
    page.get_by_role("link", name="Compact").click()
    assert rows_on_screen(page) >= 25
    page.goto(visitor.base)
    assert rows_on_screen(page) >= 25
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440
    page.get_by_role("link", name="Roomy").click()
    assert rows_on_screen(page) < 12


def test_compact_list_works_without_scripts(visitor: Visitor) -> None:
    page = visitor.open(width=1440, height=900, java_script_enabled=False)
    page.get_by_role("link", name="Compact").click()
    assert page.locator("html[data-view=compact]").count() == 1
    expect(page.locator("[data-select]").first).to_be_hidden()
    page.get_by_role("link", name="Page 2", exact=True).click()
    expect(page).to_have_url(f"{visitor.base}/?view=compact&page=2")


def test_pages_severities_days_and_groups_are_in_the_address(visitor: Visitor) -> None:
    page = visitor.open()
    page.get_by_role("link", name="Page 10", exact=True).click()
    expect(page.locator("#list [data-id]")).to_have_count(50)
    page.get_by_label("Severity").select_option("warning")
    page.wait_for_url("**/?severity=warning")
    expect(page.locator(".summary")).to_contain_text("125 match")
    page.locator("svg.days a").first.click()
    page.wait_for_url("**/?severity=warning&time=*")
    page.get_by_label("Time").select_option("")
    page.wait_for_url("**/?severity=warning")
    page.get_by_label("Group").select_option("node")
    page.wait_for_url("**/?severity=warning&group=node")
    page.get_by_role("region", name="Incidents by node").get_by_role("link", name="gpu-005").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("gpu-005")


def test_filters_chosen_before_the_list_changes_compose(visitor: Visitor) -> None:
    page = visitor.open()
    held: list[Route] = []
    page.route("**/?*", lambda route: route.continue_() if held else held.append(route))
    page.get_by_label("Severity").select_option("warning")
    page.get_by_label("Status").select_option("resolved")
    yesterday = page.locator("svg.days a").nth(-2)
    date = str(yesterday.get_attribute("data-filter"))
    yesterday.click()
    page.locator("[data-search]").fill("bus")
    page.locator("[data-search]").press("Enter")
    page.wait_for_url(f"**/?q=bus&status=resolved&severity=warning&{date}")
    expect(page.locator("#list")).to_have_attribute("aria-busy", "true")
    held[0].continue_()
    expect(page.locator("#list")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("svg.days .is-chosen")).to_have_count(1)
    expect(page.locator(".summary")).to_contain_text("match")


def test_the_back_button_brings_back_the_former_filters(visitor: Visitor) -> None:
    page = visitor.open("/?severity=warning")
    summary = page.locator(".summary")
    expect(summary).to_contain_text("125 match")
    page.get_by_label("Status").focus()
    page.get_by_label("Status").select_option("open")
    expect(summary).not_to_contain_text("125 match")
    expect(page.get_by_label("Status")).to_be_focused()
    expect(page.locator(".is-new")).to_have_count(0)
    page.go_back()
    expect(summary).to_contain_text("125 match")
    expect(page.get_by_label("Status")).to_have_value("")
    expect(page.get_by_label("Severity")).to_have_value("warning")


def test_filters_work_without_scripts(visitor: Visitor) -> None:
    page = visitor.open("/?severity=warning", java_script_enabled=False)
    page.get_by_label("Status").select_option("resolved")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**status=resolved&severity=warning**")
    page.locator("svg.days a").first.click()
    page.wait_for_url("**/?status=resolved&severity=warning&time=*")


def test_selected_incidents_are_acknowledged_together_by_keyboard(visitor: Visitor) -> None:
    page = visitor.open("/?page=2")
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(page.locator("[data-selected-count]")).to_have_text("2 selected")
    page.get_by_role("button", name="Acknowledge…").click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator("li")).to_have_count(2)
    dialog.get_by_label("Your name").fill("ada")
    dialog.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#list .acknowledged")).to_have_count(2)
    expect(page.locator("[data-select]:checked")).to_have_count(0)
    expect(page.get_by_role("button", name="Acknowledge…")).to_be_disabled()


def test_selected_incidents_are_silenced_together_and_the_selection_outlives_an_update(visitor: Visitor) -> None:
    page = visitor.open("/?page=3")
    boxes = page.locator("[data-select]")
    boxes.nth(0).check()
    chosen = boxes.nth(0).get_attribute("value")
    page.request.post(
        f"{visitor.base}/api/incidents/{boxes.nth(5).get_attribute('value')}/acknowledgement", data={"who": "bob"}
    )
    expect(page.locator("#list .acknowledged").first).to_contain_text("bob")
    expect(page.locator("[data-select]:checked")).to_have_count(1)
    page.get_by_role("button", name="Silence…").click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator("li")).to_contain_text("class gpu.fell_off_bus, node ")
    dialog.get_by_label("Reason").fill("drained")
    dialog.get_by_role("button", name="Silence", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.goto(f"{visitor.base}/incidents/{chosen}")
    expect(page.locator(".overline")).to_contain_text("silenced until")


def test_command_is_copied_and_selected_where_copying_is_refused(visitor: Visitor) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    page = visitor.open("/incidents/0000", permissions=permissions)
    command = page.locator(".commands").get_by_role("button", name="Copy scontrol")
    command.click()
    expect(page.locator("[data-toast]")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == COMMAND
    page.get_by_role("button", name="Copy nvidia-smi -q").click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text === 'nvidia-smi -q')")
    page.evaluate(REFUSING)
    command.click()
    expect(page.locator("[data-toast]")).to_have_text("Selected: press Ctrl+C to copy.")
    assert page.evaluate("getSelection().toString()") == COMMAND


def test_link_is_copied_and_offered_where_copying_is_refused(visitor: Visitor) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    page = visitor.open("/incidents/0000?x=1", permissions=permissions)
    page.keyboard.press("l")
    expect(page.locator("[data-toast]")).to_have_text("Copied.")
    address = f"{visitor.base}/incidents/0000"
    assert page.evaluate("navigator.clipboard.readText()") == address
    page.evaluate(REFUSING)
    page.get_by_role("button", name="Copy link").click()
    field = page.get_by_label("Text to copy")
    expect(field).to_have_value(address)
    assert field.evaluate("(field) => field.value.slice(field.selectionStart, field.selectionEnd)") == address
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.fixture
def changing(
    server: DevClickHouse, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of a page over three incidents, and what changes the title of the first."""
    incidents = many_incidents(3, time_ns(), HOUR_NS)
    incidents[0] = msgspec.structs.replace(incidents[0], next_steps=("A first step.",))
    client = connect(f"{server.dsn.rsplit('/', 1)[0]}/changing")

    def change() -> None:
        newer = msgspec.structs.replace(
            incidents[0], title="Another title", next_steps=("Another step.",), revision=incidents[0].revision + 1
        )
        ClickHouseSink(client).write(incidents=[newer])

    with served(server, "changing", incidents, tmp_path_factory) as address:
        yield address, change
    client.command("DROP DATABASE changing")
    client.close()


def test_live_update_waits_for_the_end_of_a_selection(
    changing: tuple[str, Callable[[], None]], visit: Callable[[str], Visitor]
) -> None:
    address, change = changing
    page = visit(address).open("/incidents/0000")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    page.get_by_text("A first step.").evaluate("(step) => getSelection().selectAllChildren(step)")
    change()
    expect(page.get_by_role("heading", name="Another title")).to_be_visible()
    assert page.evaluate("getSelection().toString()") == "A first step."
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.get_by_text("Another step.")).to_be_visible()


@pytest.mark.parametrize("focused", ["[data-select]", "[data-row]"])
def test_focus_stays_in_its_row_through_a_live_update(
    focused: str, changing: tuple[str, Callable[[], None]], visit: Callable[[str], Visitor]
) -> None:
    address, change = changing
    page = visit(address).open()
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    row = page.locator("#list [data-id]").nth(1)
    row.locator(focused).first.focus()
    change()
    expect(page.get_by_role("heading", name="Another title")).to_be_visible()
    expect(row.locator(focused).first).to_be_focused()


def test_folds_stay_as_they_were_left_through_a_live_update(
    changing: tuple[str, Callable[[], None]], visit: Callable[[str], Visitor]
) -> None:
    address, change = changing
    page = visit(address).open()

    def open_the_chain(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace('data-key="chain"', 'data-key="chain" open'))

    page.route("**/incidents/0000", open_the_chain)
    page.goto(f"{address}/incidents/0000")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    chain = page.locator("details[data-key=chain]")
    expect(chain).to_have_attribute("open", "")
    chain.locator("summary").click()
    change()
    expect(page.get_by_role("heading", name="Another title")).to_be_visible()
    expect(chain).not_to_have_attribute("open", "")
    expect(chain.locator("summary")).to_be_focused()


def test_age_of_the_newest_line_is_stated(
    server: DevClickHouse, visitor: Visitor, visit: Callable[[str], Visitor], tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = visitor.open()
    expect(page.locator("[data-live-text]")).to_have_text("live")
    expect(page.locator("[data-age]")).to_contain_text("newest line")
    old = many_incidents(1, time_ns() - 265 * 24 * HOUR_NS, 0)
    resolved = [msgspec.structs.replace(incident, status="resolved") for incident in old]
    with served(server, "old", resolved, tmp_path_factory) as address:
        quiet = visit(address).open()
        expect(quiet.locator("[data-live-text]")).to_have_text("connected")
        expect(quiet.locator("[data-age]")).to_have_text("newest line 265 d ago")
        expect(quiet.locator(".summary")).to_contain_text("No open incidents, but the newest line is 265 days old")
