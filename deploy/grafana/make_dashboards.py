"""Dashboards from `source/*.yaml`: `python deploy/grafana/make_dashboards.py` writes `dashboards/*.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).parent
SOURCE, DASHBOARDS = HERE / "source", HERE / "dashboards"

WIDTH: Final = 24
SCHEMA_VERSION: Final = 39
PLUGIN: Final = {"type": "grafana-clickhouse-datasource", "uid": "${datasource}"}
PLUGIN_VERSION: Final = "4.20.0"
TIME_SERIES, TABLE = 0, 1
"""What the plugin calls formats."""

FORMAT_BY_KIND: Final = {"timeseries": TIME_SERIES, "state-timeline": TIME_SERIES, "status-history": TIME_SERIES}

SEVERITY_COLORS: Final = {"info": "blue", "warning": "yellow", "error": "orange", "critical": "red"}

LINKS: Final = {
    "incident_page": ("Open the incident's page", "${page_url:raw}/incidents/${__data.fields.incident_id}"),
    "incident": (
        "Open the incident",
        "/d/epicenter-incident?var-incident_id=${__data.fields.incident_id}&${__url_time_range}&${page_url:queryparam}",
    ),
    "incident_merged": (
        "Open the incident that it went on in",
        "/d/epicenter-incident?var-incident_id=${__value.raw:percentencode}&${__url_time_range}&${page_url:queryparam}",
    ),
    "node": (
        "Open the node",
        "/d/epicenter-node?var-node=${__value.raw:percentencode}&${__url_time_range}&${page_url:queryparam}",
    ),
    "job": (
        "Open the job",
        "/d/epicenter-job?var-job=${__value.raw:percentencode}&${__url_time_range}&${page_url:queryparam}",
    ),
}

_LEGEND: Final = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
_TOOLTIP: Final = {"mode": "multi", "sort": "desc"}
_REDUCED: Final = {"calcs": ["lastNotNull"], "fields": "/.*/", "values": False}

OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "stat": {
        "reduceOptions": _REDUCED,
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "center",
        "textMode": "auto",
        "orientation": "auto",
        "wideLayout": True,
    },
    "bargauge": {
        "reduceOptions": {**_REDUCED, "fields": "", "values": True},
        "displayMode": "basic",
        "orientation": "horizontal",
        "valueMode": "color",
        "showUnfilled": True,
        "minVizWidth": 8,
        "minVizHeight": 10,
        "namePlacement": "auto",
        "sizing": "auto",
        "maxVizHeight": 40,
        "legend": {**_LEGEND, "showLegend": False},
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
    "timeseries": {"legend": _LEGEND, "tooltip": _TOOLTIP},
    "state-timeline": {
        "legend": _LEGEND,
        "tooltip": {"mode": "single", "sort": "none"},
        "showValue": "never",
        "rowHeight": 0.9,
        "mergeValues": True,
        "alignValue": "left",
    },
    "status-history": {
        "legend": {**_LEGEND, "showLegend": False},
        "tooltip": {"mode": "single", "sort": "none"},
        "showValue": "never",
        "rowHeight": 0.9,
        "colWidth": 0.95,
    },
}

CUSTOM: Final[dict[str, dict[str, Any]]] = {
    "table": {"align": "auto", "filterable": True, "inspect": True},
    "timeseries": {"drawStyle": "line", "lineWidth": 2, "fillOpacity": 10, "showPoints": "auto", "spanNulls": True},
    "state-timeline": {"fillOpacity": 80, "lineWidth": 0},
    "status-history": {"fillOpacity": 90, "lineWidth": 1},
}
BARS: Final = {
    "drawStyle": "bars",
    "lineWidth": 0,
    "fillOpacity": 80,
    "showPoints": "never",
    "stacking": {"mode": "normal", "group": "A"},
}


def dashboards() -> dict[str, dict[str, Any]]:
    """Each dashboard's document, by its file name."""
    names = sorted(path.stem for path in SOURCE.glob("*.yaml") if path.stem != "common")
    return {f"{name}.json": _dashboard(_read(name)) for name in names}


def rendered(document: Mapping[str, Any]) -> str:
    """The text of a dashboard's file."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _dashboard(source: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "uid": source["uid"],
        "title": source["title"],
        "description": source["what"],
        "tags": ["epicenter"],
        "schemaVersion": SCHEMA_VERSION,
        "timezone": "browser",
        "editable": False,
        "graphTooltip": 1,
        "time": {"from": f"now-{source['range']}", "to": "now"},
        "refresh": source.get("refresh", ""),
        "templating": {"list": [_datasource_variable(), *map(_variable, source["variables"])]},
        "annotations": {"list": [_annotation(name) for name in source["annotations"]]},
        "links": [_other_dashboards()],
        "panels": _laid_out([_panel(panel) for panel in source["panels"]]),
    }


def _laid_out(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Panels from left to right and from top to bottom; a row is as high as its highest panel."""
    x = y = height = 0
    for number, panel in enumerate(panels, start=1):
        place = panel["gridPos"]
        if x + place["w"] > WIDTH:
            x, y, height = 0, y + height, 0
        place |= {"x": x, "y": y}
        panel["id"] = number
        x, height = x + place["w"], max(height, place["h"])
    return panels


def _panel(source: Mapping[str, Any]) -> dict[str, Any]:
    kind = source["kind"]
    width, height = map(int, source["size"].split("x"))
    queries = source.get("queries") or [source["sql"]]
    red = f"\n\n**When it is red:** {source['red']}" if "red" in source else ""
    return {
        "type": kind,
        "title": source["title"],
        "description": source["what"] + red,
        "gridPos": {"w": width, "h": height},
        "datasource": PLUGIN,
        "targets": [_target("ABCDEFGH"[i], query, FORMAT_BY_KIND.get(kind, TABLE)) for i, query in enumerate(queries)],
        "options": OPTIONS[kind],
        "fieldConfig": {
            "defaults": _defaults(source),
            "overrides": [_override(name, column) for name, column in source.get("columns", {}).items()],
        },
    }


def _target(ref: str, query: str, form: int) -> dict[str, Any]:
    return {
        "refId": ref,
        "datasource": PLUGIN,
        "editorType": "sql",
        "queryType": "table" if form == TABLE else "timeseries",
        "format": form,
        "rawSql": spelt_out(query),
        "pluginVersion": PLUGIN_VERSION,
    }


def _defaults(source: Mapping[str, Any]) -> dict[str, Any]:
    custom = CUSTOM.get(source["kind"], {}) | (BARS if source.get("style") == "bars" else {})
    found: dict[str, Any] = {"noValue": source["empty"], **_look(source)}
    if "legend" in source:
        found["displayName"] = f"${{__field.labels.{source['legend']}}}"
    return {**found, "custom": custom} if custom else found


def _look(source: Mapping[str, Any]) -> dict[str, Any]:
    """Unit, decimals, thresholds and colours of a panel or of a column."""
    found: dict[str, Any] = {name: source[name] for name in ("unit", "decimals") if name in source}
    if "steps" in source:
        found |= {"thresholds": _thresholds(source["steps"]), "color": {"mode": "thresholds"}}
    if source.get("colors") == "severity":
        found["mappings"] = [_severities()]
    if source.get("colors") == "counts":
        found |= {"color": {"mode": "continuous-YlRd"}, "min": 0}
    if source.get("colors") == "share":
        found |= {"thresholds": _thresholds({0: "red", 0.5: "orange", 0.9: "green"}), "color": {"mode": "thresholds"}}
    return found


def _thresholds(steps: Mapping[float, str]) -> dict[str, Any]:
    values = [{"value": value or None, "color": color} for value, color in steps.items()]
    return {"mode": "absolute", "steps": values}


def _severities() -> dict[str, Any]:
    """For the names and for the numbers of severities alike."""
    options: dict[str, Any] = {}
    for number, (name, color) in enumerate(SEVERITY_COLORS.items(), start=1):
        options |= {name: {"color": color, "index": number}, str(number): {"text": name, "color": color}}
    return {"type": "value", "options": options}


def _override(name: str, column: Mapping[str, Any]) -> dict[str, Any]:
    properties = dict(_look(column))
    if "width" in column:
        properties["custom.width"] = column["width"]
    if "axis" in column:
        properties["custom.axisPlacement"] = column["axis"]
    if "bar" in column:
        properties |= {"custom.cellOptions": {"type": "gauge", "mode": "basic"}, "min": 0}
    elif "colors" in column:
        properties["custom.cellOptions"] = {"type": "color-text"}
    elif "steps" in column:
        properties["custom.cellOptions"] = {"type": "color-background"}
    if "link" in column:
        title, url = LINKS[column["link"]]
        properties["links"] = [{"title": title, "url": url, "targetBlank": False}]
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": id_, "value": value} for id_, value in properties.items()],
    }


# ---- variables, annotations, links -----------------------------------------------------------------------------------


def _datasource_variable() -> dict[str, Any]:
    return {"type": "datasource", "name": "datasource", "label": "Store", "query": PLUGIN["type"], "hide": 0}


def _variable(name: str) -> dict[str, Any]:
    source = _common()["variables"][name]
    common = {"name": name, "label": source["label"], "hide": 0}
    if "text" in source:
        chosen = {"text": source["text"], "value": source["text"]}
        return {**common, "type": "textbox", "description": source["what"], "query": source["text"], "current": chosen}
    multi = {"multi": True, "includeAll": True, "current": {"text": ["All"], "value": ["$__all"]}}
    common |= multi if source.get("is_multi") else {}
    if "values" in source:
        return {**common, "type": "custom", "query": ",".join(source["values"])}
    query = {"refId": name, "editorType": "sql", "queryType": "sql", "rawSql": spelt_out(source["sql"])}
    return {**common, "type": "query", "datasource": PLUGIN, "query": query, "refresh": 2, "sort": 0}


def _annotation(name: str) -> dict[str, Any]:
    source = _common()["annotations"][name]
    return {
        "name": source["name"],
        "enable": True,
        "iconColor": source["color"],
        "datasource": PLUGIN,
        "target": _target("annotation", source["sql"], TABLE),
    }


def _other_dashboards() -> dict[str, Any]:
    return {
        "type": "dashboards",
        "title": "epicenter",
        "tags": ["epicenter"],
        "asDropdown": False,
        "keepTime": True,
        "includeVars": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


# ---- SQL -------------------------------------------------------------------------------------------------------------


def spelt_out(query: str) -> str:
    """The query with every `<<piece>>` and `<<piece:argument>>` written out, the innermost first."""
    written = re.sub(r"<<(\w+)(?::((?:(?!<<|>>).)*))?>>", _piece, query.strip(), flags=re.DOTALL)
    return written if written == query.strip() else spelt_out(written)


def _piece(found: re.Match[str]) -> str:
    text = str(_common()["pieces"][found[1]]).strip()
    return text if found[2] is None else text.replace("%", found[2])


@cache
def _common() -> dict[str, Any]:
    return _read("common")


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SOURCE / f"{name}.yaml").read_text())
    return found


def main() -> None:
    """Write every dashboard."""
    for name, document in dashboards().items():
        (DASHBOARDS / name).write_text(rendered(document))


if __name__ == "__main__":
    main()
