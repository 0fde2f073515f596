"""A browser at the page of a running `epicenter run`: a simulated failure happens while the page is open."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from playwright.sync_api import expect

from epicenter.ingest.simulate import TrueFault, truth_of, write_paced
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.cli.demo import demo_scenario
from tests.support.browser import Visitor
from tests.support.serving import epicenter
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

PATIENCE_S = 60.0
FAILED_S = 150.0
NASTY = "<script>document.title='pwned'</script><img src=x onerror=alert(1)>\x1b[31mred\x1b[0m \u202egnp.exe"
EVIL_NODE = "evil<b>1"
LONG = "RuntimeError: " + "A" * 1_000_000


class Live:
    """A running epicenter on a simulated cluster whose clock a test advances."""

    def __init__(self, base: str, logs: Path):
        self.base = base
        scenario = demo_scenario(12, "gpu-off-bus", time_ns() - 800 * NS_PER_S)
        self.truth: TrueFault = truth_of(scenario).faults[0]
        self._logs = logs
        self._passed_s = 0.0
        self._fails, self._continues = threading.Event(), threading.Event()
        self._cluster = threading.Thread(target=write_paced, args=(scenario, logs, 1.0, self._wait), daemon=True)
        self._cluster.start()

    def fail(self) -> None:
        """The cluster runs until half a minute after its GPU failed."""
        self._fails.set()

    def run_to_end(self) -> None:
        """The cluster runs to its end: the other ranks time out after ten minutes, and hostile lines arrive."""
        self.fail()
        if not self._continues.is_set():
            self._continues.set()
            self._cluster.join(PATIENCE_S)
            self._append(f"RuntimeError: CUDA error: an illegal memory access was encountered {NASTY}")
            self._append(LONG)

    def _wait(self, length_s: float) -> None:
        self._fails.wait()
        self._passed_s += length_s
        if self._passed_s > FAILED_S:
            self._continues.wait()

    def _append(self, message: str) -> None:
        line = {"time": datetime.now(UTC).isoformat(), "host": EVIL_NODE, "job": "hostile", "message": message}
        with (self._logs / "more.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")

    def incident(self, node: str = "") -> dict[str, Any]:
        """The incident that began on a node, as soon as there is one; by default the simulated failure's."""
        wanted = node or self.truth.node

        def found() -> dict[str, Any] | None:
            with urllib.request.urlopen(f"{self.base}/api/incidents", timeout=10) as answer:
                return next(
                    (incident for incident in json.loads(answer.read()) if incident["root_cause"]["node"] == wanted),
                    None,
                )

        return eventually(found, PATIENCE_S, "the incident on the page")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("live")
    logs = folder / "logs"
    logs.mkdir()
    (folder / "epicenter.toml").write_text('allowed_lateness = "2s"\n')
    options = ("--data-dir", folder / "data", "--config", folder / "epicenter.toml", "--page-port", 0)
    with epicenter(folder, "run", logs, *options) as base:
        live = Live(base, logs)
        yield live
        live.run_to_end()


@pytest.fixture
def visitor(live: Live, visit: Callable[[str], Visitor]) -> Visitor:
    return visit(live.base)


def test_an_incident_appears_while_the_page_is_open(live: Live, visitor: Visitor) -> None:
    page = visitor.open()
    expect(page.get_by_role("heading", name="No incidents")).to_be_visible()
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    page.evaluate("window.isSamePage = true")
    live.fail()
    row = page.locator("#list [data-id]")
    expect(row).to_have_count(1, timeout=PATIENCE_S * 1000)
    expect(row).to_have_class("incident is-new")
    expect(page.locator("[data-announce]")).to_contain_text(f"on {live.truth.node}")
    expect(row.get_by_role("heading")).to_contain_text(live.truth.node)
    assert page.title() == "(1) Incidents – epicenter"
    assert page.evaluate("window.isSamePage")


def test_an_open_page_shows_changes_of_an_incident(live: Live, visitor: Visitor) -> None:
    live.fail()
    page = visitor.open(f"/incidents/{live.incident()['incident_id']}")
    page.get_by_text("Causal chain as a table").click()
    chain = page.get_by_role("region", name="Causal chain")
    expect(chain).not_to_contain_text("nccl-timeout")
    live.run_to_end()
    expect(chain).to_contain_text("nccl-timeout", timeout=PATIENCE_S * 1000)
    expect(page.locator(".lane-name.is-folded").first).to_contain_text("more node")


def test_an_incident_shows_the_true_cause_and_chain(live: Live, visitor: Visitor) -> None:
    live.run_to_end()
    incident = live.incident()
    page = visitor.open(f"/incidents/{incident['incident_id']}")
    truth = live.truth
    expect(page.locator(".lead")).to_contain_text(f"{truth.failure_class} on {truth.node} came first")
    expect(page.locator(".proof.is-root").first).to_contain_text("Xid (PCI:" + truth.gpu)
    lanes = page.locator(".lanes.is-broad")
    assert lanes.locator(".lane-name.is-root").text_content() == truth.node
    assert lanes.locator(".event.is-root text").text_content() == truth.failure_class
    assert lanes.locator(".arrow").count() >= 2
    page.get_by_text("Causal chain as a table").click()
    chain = page.get_by_role("region", name="Causal chain")
    rows = chain.get_by_role("row")
    eventually(lambda: rows.count() == len(live.incident()["chain"]) + 1, PATIENCE_S, "the whole chain to be shown")
    expect(chain.locator(".is-root")).to_contain_text(truth.node)
    expect(chain).to_contain_text("nccl-timeout")


def test_feedback_is_stored_and_shown(live: Live, visitor: Visitor) -> None:
    live.run_to_end()
    page = visitor.open(f"/incidents/{live.incident()['incident_id']}")
    page.get_by_role("button", name="Wrong…").click()
    page.locator("dialog[open]").get_by_label("Actual class").fill("no-such-class")
    page.locator("dialog[open]").get_by_label("Your name").fill("ada")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown class")
    visitor.errors = [error for error in visitor.errors if "400 (Bad Request)" not in error]
    page.locator("dialog[open]").get_by_label("Actual class").fill("power-supply-fault")
    page.locator("dialog[open]").get_by_label("Note").fill("the <rack> lost power")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator(".feedback")).to_contain_text(
        "ada marked the diagnosis wrong; actual class: power-supply-fault: the <rack> lost"
    )
    page.reload()
    expect(page.locator(".feedback")).to_have_count(1)
    page.get_by_role("button", name="Right").click()
    expect(page.locator(".feedback")).to_contain_text("ada marked the diagnosis right")
    expect(page.locator(".feedback")).to_have_count(1)


def test_an_acknowledgement_is_shown_on_other_pages_and_withdrawn(live: Live, visitor: Visitor) -> None:
    live.run_to_end()
    incident_id = live.incident()["incident_id"]
    others = visitor.open()
    page = visitor.open(f"/incidents/{incident_id}")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    page.keyboard.press("a")
    dialog = page.get_by_role("dialog", name="Acknowledge this incident")
    dialog.get_by_label("Note").fill("case <4711>")
    dialog.get_by_label("Your name").fill("ada")
    page.keyboard.press("Enter")
    expect(page.locator("#head .acknowledged")).to_contain_text("Acknowledged by ada")
    expect(page.locator("#head .acknowledged")).to_contain_text("UTC: case <4711>")
    expect(page.get_by_role("dialog")).to_have_count(0)
    row = others.locator(f"[data-id='{incident_id}'] .acknowledged")
    expect(row).to_contain_text("Acknowledged by ada", timeout=PATIENCE_S * 1000)
    page.get_by_role("button", name="Withdraw").click()
    expect(page.locator("#head .acknowledged")).to_have_count(0)
    expect(page.locator(".history")).to_contain_text("ada withdrew the acknowledgement")
    expect(row).to_have_count(0, timeout=PATIENCE_S * 1000)


def test_a_silence_is_stored_shown_and_ended(live: Live, visitor: Visitor) -> None:
    live.run_to_end()
    page = visitor.open(f"/incidents/{live.incident()['incident_id']}")
    page.get_by_role("button", name="Silence…").click()
    expect(page.locator("dialog[open]").get_by_label("class")).to_have_value(live.truth.failure_class)
    expect(page.locator("dialog[open]").get_by_label("node")).to_have_value(live.truth.node)
    page.locator("dialog[open]").get_by_label("job").fill("")
    page.locator("dialog[open]").get_by_label("Reason").fill("drained")
    page.get_by_role("button", name="Silence", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".overline")).to_contain_text("silenced until")
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.locator(".silences li")).to_contain_text(f"class {live.truth.failure_class}")
    expect(page.locator("[data-live-text]")).to_have_text("live")
    page.get_by_role("button", name="Expire").click()
    expect(page.locator(".silences li")).to_contain_text("ended", timeout=PATIENCE_S * 1000)
    expect(page.get_by_role("button", name="Expire")).to_have_count(0)


@pytest.mark.parametrize("kind", ["Markdown", "JSON"])
def test_an_incident_is_copied_to_the_clipboard(live: Live, visitor: Visitor, kind: str) -> None:
    live.run_to_end()
    incident = live.incident()
    permissions = ["clipboard-read", "clipboard-write"]
    page = visitor.open(f"/incidents/{incident['incident_id']}", permissions=permissions)
    page.get_by_role("button", name=f"Copy {kind}").click()
    expect(page.locator("[data-toast]")).to_have_text("Copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert incident["title"] in copied
    if kind == "JSON":
        assert json.loads(copied)["incident_id"] == incident["incident_id"]


def test_hostile_lines_are_sanitized(live: Live, visitor: Visitor) -> None:
    live.run_to_end()
    incident = live.incident(EVIL_NODE)
    for path in ("", f"/incidents/{incident['incident_id']}", "/jobs", "/jobs/default/hostile"):
        page = visitor.open(path)
        expect(page.locator("main")).to_contain_text("hostile" if path != "" else EVIL_NODE)
        assert page.locator("script:not([src^='/static/'])").count() == 0
        assert page.locator("main img, main b:text-is('1')").count() == 0
        assert page.title() != "pwned"
        text = page.evaluate("document.documentElement.outerHTML")
        assert not {"\x1b", "\u202e"} & set(text)
        assert len(text) < 400_000
    page = visitor.open(f"/incidents/{incident['incident_id']}")
    expect(page.locator("#body")).to_contain_text(r"\x1b[31mred\x1b[0m \u202egnp.exe")
    expect(page.locator("#body")).to_contain_text("<script>document.title='pwned'</script>")
    page.get_by_text("show all 1,000 characters").first.click()
    assert page.evaluate("[scrollX, document.documentElement.scrollWidth <= innerWidth]") == [0, True]
