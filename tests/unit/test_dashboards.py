"""The dashboards are generated from their source, fit Grafana's schema, and are consistent."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.grafana import View, expanded, read_dashboards
from tests.support.grafana_schema import DATASOURCE, linked_uids, problems

DEPLOY = Path(__file__).parents[2] / "deploy" / "grafana"
DASHBOARDS = read_dashboards(DEPLOY / "dashboards")


def test_the_files_are_generated_from_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DEPLOY)
    spec = importlib.util.spec_from_file_location("make_dashboards", DEPLOY / "make_dashboards.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = {path.name: path.read_text("utf-8") for path in (DEPLOY / "dashboards").iterdir()}
    made = {name: module.rendered(document) for name, document in module.dashboards().items()}
    assert written == made, "run `python deploy/grafana/make_dashboards.py`"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_file_is_a_valid_dashboard(name: str) -> None:
    assert problems(DASHBOARDS[name]) == []


def test_names_are_unique_and_links_resolve() -> None:
    assert set(DASHBOARDS) == {"fleet", "incident", "job", "node", "capacity", "pipeline"}
    uids = {dashboard["uid"] for dashboard in DASHBOARDS.values()}
    assert len(uids) == len({dashboard["title"] for dashboard in DASHBOARDS.values()}) == len(DASHBOARDS)
    assert {uid for dashboard in DASHBOARDS.values() for uid in linked_uids(dashboard)} <= uids


def _without_description(dashboard: Any) -> None:
    dashboard["panels"][2]["description"] = ""


def _red_without_advice(dashboard: Any) -> None:
    dashboard["panels"][0]["description"] = "How many are open."


def _overlapping_panels(dashboard: Any) -> None:
    dashboard["panels"][1]["gridPos"] = dashboard["panels"][0]["gridPos"]


def _misspelt(dashboard: Any) -> None:
    dashboard["panels"][0]["fieldConfig"]["defaults"]["noValu"] = "x"


def _mistyped(dashboard: Any) -> None:
    dashboard["panels"][0]["gridPos"]["w"] = "4"


def _unknown_choice(dashboard: Any) -> None:
    dashboard["panels"][0]["options"]["colorMode"] = "rainbow"


def _wrong_format(dashboard: Any) -> None:
    dashboard["panels"][0]["targets"][0]["format"] = 0


def _unknown_variable(dashboard: Any) -> None:
    dashboard["panels"][0]["targets"][0]["rawSql"] += " AND rack = '$rack'"


def _same_id(dashboard: Any) -> None:
    dashboard["panels"][1]["id"] = dashboard["panels"][0]["id"]


def _other_datasource(dashboard: Any) -> None:
    dashboard["panels"][0]["targets"][0]["datasource"] = DATASOURCE | {"uid": "mine"}


BREAKAGES: list[Callable[[Any], None]] = [
    _without_description,
    _red_without_advice,
    _overlapping_panels,
    _misspelt,
    _mistyped,
    _unknown_choice,
    _wrong_format,
    _unknown_variable,
    _same_id,
    _other_datasource,
]


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.__name__)
def test_a_broken_dashboard_is_found(breakage: Callable[[Any], None]) -> None:
    dashboard = copy.deepcopy(DASHBOARDS["fleet"])
    breakage(dashboard)
    assert len(problems(dashboard)) == 1


def test_the_datasource_is_provisioned_without_a_secret() -> None:
    (source,) = yaml.safe_load((DEPLOY / "provisioning/datasources/epicenter.yaml").read_text())["datasources"]
    chosen = {dashboard["templating"]["list"][0]["current"]["value"] for dashboard in DASHBOARDS.values()}
    assert ({source["uid"]}, source["type"]) == (chosen, DATASOURCE["type"])
    assert source["secureJsonData"] == {"password": "$EPICENTER_CLICKHOUSE_PASSWORD"}
    variables = {value for value in source["jsonData"].values() if str(value).startswith("$")}
    guide = (DEPLOY.parents[1] / "docs" / "dashboards.md").read_text()
    assert {name for name in variables if name[1:] not in guide} == set()


NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
VIEW = View(NINE, NINE + timedelta(hours=1), {"all": "$__all", "some": ["a", "o'b"], "one": "x'\\", "none": ""}, 60)
BEGINS, ENDS = "toDateTime(1772442000)", "toDateTime(1772445600)"

EXPANSIONS = [
    ("$__timeFilter(t)", f"t >= {BEGINS} AND t <= {ENDS}"),
    (
        "$__timeFilter_ms(t)",
        "t >= fromUnixTimestamp64Milli(1772442000000) AND t <= fromUnixTimestamp64Milli(1772445600000)",
    ),
    ("greatest($__fromTime, $__toTime - 1)", f"greatest({BEGINS}, {ENDS} - 1)"),
    ("$__timeInterval(f(t, 'a)b'))", "toStartOfInterval(toDateTime(f(t, 'a)b')), INTERVAL 60 second)"),
    (
        "$__timeFilter($__timeInterval(t))",
        "{0} >= {1} AND {0} <= {2}".format("toStartOfInterval(toDateTime(t), INTERVAL 60 second)", BEGINS, ENDS),
    ),
    ("$__interval_s", "60"),
    ("$__conditionalAll(f(x, [1, 2]), $all)", "1=1"),
    ("$__conditionalAll(x = '', ${none})", "1=1"),
    ("$__conditionalAll(x IN (${some:singlequote}), $some)", r"x IN ('a','o\'b')"),
    ("x IN ($some)", "x IN ('a','o'b')"),
    ("decode('${one:percentencode}')", "decode('x%27%5C')"),
    ("${one:raw}", "x'\\"),
]


@pytest.mark.parametrize(("sql", "expected"), EXPANSIONS, ids=[sql for sql, _ in EXPANSIONS])
def test_a_query_is_expanded_as_the_plugin_does_it(sql: str, expected: str) -> None:
    assert expanded(sql, VIEW) == expected
