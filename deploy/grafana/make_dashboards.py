"""Dashboards from `source/*.yaml`: `python deploy/grafana/make_dashboards.py` writes `dashboards/*.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from looks import OPTIONS, defaults, override

HERE: Final = Path(__file__).parent
SOURCE, DASHBOARDS = HERE / "source", HERE / "dashboards"

WIDTH: Final = 24
SCHEMA_VERSION: Final = 39
SHORTEST: Final = "1m"
FEW_POINTS: Final = 48
PLUGIN: Final = {"type": "grafana-clickhouse-datasource", "uid": "${datasource}"}
PROVISIONED: Final = "epicenter-clickhouse"
"""The uid in provisioning/datasources."""

PLUGIN_VERSION: Final = "4.20.0"
TIME_SERIES, TABLE = 0, 1
"""The plugin's numbers of formats."""

FORMAT_BY_KIND: Final = {"timeseries": TIME_SERIES, "state-timeline": TIME_SERIES, "status-history": TIME_SERIES}


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
        **_buckets(source),
        "type": kind,
        "title": source["title"],
        "description": source["what"] + red,
        "gridPos": {"w": width, "h": height},
        "datasource": PLUGIN,
        "targets": [_target("ABCDEFGH"[i], query, FORMAT_BY_KIND.get(kind, TABLE)) for i, query in enumerate(queries)],
        "options": OPTIONS[kind],
        "fieldConfig": {
            "defaults": defaults(source),
            "overrides": [override(name, column) for name, column in source.get("columns", {}).items()],
        },
    }


def _buckets(source: Mapping[str, Any]) -> dict[str, Any]:
    """Most tables hold minutes, so no bucket is shorter; bars and squares must be wide enough to see."""
    if source.get("style") == "bars" or source["kind"] == "status-history":
        return {"interval": SHORTEST, "maxDataPoints": FEW_POINTS}
    return {"interval": SHORTEST} if FORMAT_BY_KIND.get(source["kind"], TABLE) == TIME_SERIES else {}


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


# ---- variables, annotations, links -----------------------------------------------------------------------------------


def _datasource_variable() -> dict[str, Any]:
    """The store, if there are several; default: the provisioned one."""
    chosen = {"text": "epicenter", "value": PROVISIONED}
    common = {"name": "datasource", "label": "Store", "hide": 0}
    return {**common, "type": "datasource", "query": PLUGIN["type"], "current": chosen}


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
