"""Metrics in Prometheus' text format, under their present and their former names."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

import pytest

from epicenter.stream.metric_rows import Row
from epicenter.stream.metrics import FORMER_METRICS, ROWS, Metrics


@pytest.fixture
def metrics() -> Metrics:
    metrics = Metrics()
    metrics.record_fault("topic-missing", 3)
    metrics.record_newest_age("logs.raw/0", 1.5)
    metrics.record_pending("slack", 2, is_failing=True)
    metrics.record_pending("pager", 0, is_failing=False)
    return metrics


def test_target_is_up_unless_it_is_failing(metrics: Metrics) -> None:
    up = {labels["target"]: value for name, labels, value in metrics.series() if name == "epicenter_target_up"}
    assert up == {"slack": 0.0, "pager": 1.0}


@pytest.mark.parametrize(
    ("former", "labels", "value"),
    [
        ("epicenter_trouble_total", '{kind="topic-missing"}', "3.0"),
        ("epicenter_behind_seconds", '{source="logs.raw/0"}', "1.5"),
        ("epicenter_target_is_away", '{target="slack"}', "1.0"),
        ("epicenter_target_is_away", '{target="pager"}', "0.0"),
    ],
)
def test_former_metric_is_still_exposed(metrics: Metrics, former: str, labels: str, value: str) -> None:
    lines = metrics.text().decode().splitlines()
    assert lines.count(f"{former}{labels} {value}") == 1
    assert lines.count(f"# HELP {former} Deprecated: use {FORMER_METRICS[former].now}.") == 1


def test_former_metrics_are_sampled_for_the_store_too(metrics: Metrics) -> None:
    names = [name for name, _, _ in metrics.series()]
    assert names.count("epicenter_trouble_total") == names.count("epicenter_kafka_faults_total") == 1


def test_open_incidents_are_shown_by_severity_and_class_until_none_is_open(metrics: Metrics) -> None:
    metrics.record_opened([("critical", "xid-79"), ("critical", "xid-79")])
    metrics.record_open({("critical", "xid-79"): 2})
    metrics.record_open({("error", "host-oom"): 1})
    lines = metrics.text().decode().splitlines()
    assert 'epicenter_incidents_open{class="xid-79",severity="critical"} 0.0' in lines
    assert 'epicenter_incidents_open{class="host-oom",severity="error"} 1.0' in lines
    assert 'epicenter_incidents_total{class="xid-79",severity="critical"} 2.0' in lines
    metrics.forget_open()
    assert "epicenter_incidents_open{" not in metrics.text().decode()


def test_build_info_has_the_version(metrics: Metrics) -> None:
    assert f'epicenter_build_info{{version="{version("epicenter")}"}} 1.0' in metrics.text().decode()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_help_is_a_whole_sentence(row: Row[Any]) -> None:
    assert re.fullmatch(r"(Counts|Shows|Measures|Is) [a-z].+[a-z)]\.", row.meaning)


def test_every_former_metric_leads_to_a_present_one() -> None:
    present = {line.split()[2] for line in Metrics().text().decode().splitlines() if line.startswith("# TYPE")}
    assert {now for now, _ in FORMER_METRICS.values()} <= present - FORMER_METRICS.keys()


def test_a_node_whose_clock_is_no_longer_known_has_no_skew(metrics: Metrics) -> None:
    for node in ("n1", "n2"):
        metrics.record_skews({f"default/{node}": 2_000_000_000})
    skews = [(labels["node"], value) for name, labels, value in metrics.series() if "clock_skew" in name]
    assert skews == [("default/n2", 2.0)]
