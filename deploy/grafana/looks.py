"""How panels look, by their kind, and where their columns lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SEVERITY_COLORS: Final = {"info": "blue", "warning": "yellow", "error": "orange", "critical": "red"}

LINKS: Final = {
    "incident_page": ("Open the incident's page", "${page_url:raw}/incidents/${__data.fields.incident_id}"),
    "incident": (
        "Open the incident",
        "/d/epicenter-incident?var-incident_id=${__data.fields.incident_id}&${__url_time_range}&${page_url:queryparam}",
    ),
    "incident_merged": (
        "Open the incident that it was merged into",
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


def defaults(source: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of every field of a panel."""
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
    """For both the names and the numbers of severities."""
    options: dict[str, Any] = {}
    for number, (name, color) in enumerate(SEVERITY_COLORS.items(), start=1):
        options |= {name: {"color": color, "index": number}, str(number): {"text": name, "color": color}}
    return {"type": "value", "options": options}


def override(name: str, column: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides of one column."""
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
