"""The document of operation: its sizes are computed, and every metric and every alert is explained."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from docs import make_sizing as sizing
from epicenter.stream.metrics import FORMER_METRICS, Metrics

ROLE = "epicenter_page"
ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/operations.md").read_text()


def section(title: str) -> str:
    return DOCUMENT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_sizing_table_is_computed_from_the_constants() -> None:
    assert [line for line in section("Sizing").splitlines() if line.startswith("| 1")] == sizing.rows()


def test_the_constants_are_in_the_documents_they_come_from() -> None:
    performance, benches = (
        " ".join((ROOT / f"docs/{name}.md").read_text().split()) for name in ("performance", "benches")
    )
    assert f"{sizing.LINES_A_CORE_SECOND:,} lines a core-second with the catalogue" in performance
    assert f"real logs perhaps {sizing.RAW_BYTES}" in performance
    assert f"{sizing.workers(10_000_000)} workers at {sizing.BUSY:.0%}".replace("%", " %") in performance
    assert "39 bytes a row, 3.9 GB; 5.7 million rows, 773 MB" in benches and sizing.MATCH_BYTES == 39 + 8
    assert "the one that correlates, the other | 587 MB" in benches and sizing.WORKER_GB >= 0.587


def test_the_constants_are_next_to_the_table() -> None:
    text = section("Sizing")
    for part in ("610,000", "60 %", "0.6 GB", "50 bytes x 3 copies x 86,400", "0.1 % x 47 bytes x 86,400"):
        assert part in text


def test_every_metric_and_no_other_is_explained() -> None:
    shown = {name for name in re.findall(r"^# TYPE (\w+)", Metrics().text().decode(), re.M) if "epicenter_" in name}
    shown = {name for name in shown if not name.endswith("_created")} - FORMER_METRICS.keys()
    assert set(re.findall(r"`(epicenter_\w+)", section("Metrics"))) == shown
    assert set(re.findall(r"`(epicenter_\w+)", DOCUMENT)) <= shown | {ROLE}


def test_every_alert_is_explained_with_its_urgency() -> None:
    groups = yaml.safe_load((ROOT / "deploy/prometheus/epicenter.rules.yaml").read_text())["groups"]
    rules = {
        rule["alert"]: rule["labels"]["severity"] for group in groups for rule in group["rules"] if "alert" in rule
    }
    explained = {
        name: {"now": "critical", "today": "warning"}[when]
        for names, when in re.findall(r"^\| (`Epicenter.*?`) \| (now|today) \|", section("Alerts"), re.M)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert explained == rules


def test_the_document_is_short() -> None:
    assert len(DOCUMENT.splitlines()) <= 260
