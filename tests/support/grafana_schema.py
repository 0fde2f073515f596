"""Checks a dashboard against Grafana's schema, as its foundation SDK has it, and its parts against each other."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import combinations
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from grafana_foundation_sdk.cog import runtime, variants
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

DATASOURCE = {"type": "grafana-clickhouse-datasource", "uid": "${datasource}"}
TIME_SERIES_PANELS = ("timeseries", "state-timeline", "status-history")


class _PluginQuery(variants.Dataquery):
    """A query whose shape only the plugin knows."""

    def __init__(self, target: Any):
        self._target = target

    def to_json(self) -> Any:
        return self._target


register_default_plugins()
runtime.register_dataquery_variant(runtime.DataqueryConfig(DATASOURCE["type"], _PluginQuery))


def problems(dashboard: Mapping[str, Any]) -> list[str]:
    """What is wrong with a dashboard, in words; empty when Grafana would accept all of it."""
    return list(_schema_problems(dashboard)) or [
        *_repeated_ids(dashboard),
        *_overlaps(dashboard["panels"]),
        *_wrong_targets(dashboard),
        *_unknown_variables(dashboard),
    ]


def linked_uids(dashboard: Mapping[str, Any]) -> set[str]:
    """The other dashboards that its links lead to."""
    return set(re.findall(r"/d/([\w-]+)", json.dumps(dashboard)))


# ---- the schema ------------------------------------------------------------------------------------------------------


def _schema_problems(dashboard: Mapping[str, Any]) -> Iterator[str]:
    """What the SDK does not know is lost on the way through it; what it knows must have the right type."""
    known = Dashboard.from_json(dict(dashboard))
    yield from _lost(dashboard, json.loads(json.dumps(known, cls=JSONEncoder)), "")
    yield from _mistyped(known, "")


def _lost(given: Any, read: Any, path: str) -> Iterator[str]:
    if re.search(r"/annotations/list/\d+/target$", path):
        return  # the schema leaves it to the plugin, the SDK drops it
    if isinstance(given, Mapping) and isinstance(read, Mapping):
        for name, value in given.items():
            if name in read:
                yield from _lost(value, read[name], f"{path}/{name}")
            else:
                yield f"{path}/{name}: not in the schema"
    elif isinstance(given, list) and isinstance(read, list):
        for number, (before, other) in enumerate(zip(given, read, strict=True)):
            yield from _lost(before, other, f"{path}/{number}")
    elif given != read:
        yield f"{path}: {given!r} is read as {read!r}"


def _mistyped(known: Any, path: str) -> Iterator[str]:
    for name, hint in get_type_hints(type(known)).items():
        value = getattr(known, name, None)
        if value is not None and not _fits(value, hint):
            yield f"{path}/{name}: {value!r} is no {hint}"
        for number, part in enumerate(value if isinstance(value, list) else [value]):
            if type(part).__module__.startswith("grafana_foundation_sdk.models"):
                yield from _mistyped(part, f"{path}/{name}/{number}")


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, choice) for choice in arguments)
    if origin is list:
        return isinstance(value, list) and all(_fits(element, arguments[0]) for element in value)
    if origin is Literal:
        return value in arguments
    if hint in (Any, object) or origin is dict:
        return origin is None or isinstance(value, dict)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return value in [member.value for member in hint]
    return isinstance(value, (int, float) if hint is float else hint)


# ---- beyond the schema ---------------------------------------------------------------------------------------------


def _repeated_ids(dashboard: Mapping[str, Any]) -> Iterator[str]:
    for number, count in Counter(panel["id"] for panel in dashboard["panels"]).items():
        if count > 1:
            yield f"panel id {number}: {count} times"


def _overlaps(panels: list[Any]) -> Iterator[str]:
    for panel in panels:
        if panel["gridPos"]["x"] + panel["gridPos"]["w"] > 24:
            yield f"{panel['title']}: wider than the page"
    for first, other in combinations(panels, 2):
        if _meet(first["gridPos"], other["gridPos"]):
            yield f"{first['title']}: lies over {other['title']}"


def _meet(first: Mapping[str, int], other: Mapping[str, int]) -> bool:
    apart = first["x"] + first["w"] <= other["x"] or other["x"] + other["w"] <= first["x"]
    above = first["y"] + first["h"] <= other["y"] or other["y"] + other["h"] <= first["y"]
    return not (apart or above)


def _wrong_targets(dashboard: Mapping[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        if not panel["description"]:
            yield f"{panel['title']}: no description"
        if '"thresholds"' in json.dumps(panel) and "When it is red" not in panel["description"]:
            yield f"{panel['title']}: turns red without advice what to do"
        for target in panel["targets"]:
            form = 0 if panel["type"] in TIME_SERIES_PANELS else 1
            if target["format"] != form or target["queryType"] != ("table", "timeseries")[form == 0]:
                yield f"{panel['title']}: a {panel['type']} wants format {form}"
            if target["datasource"] != DATASOURCE or panel["datasource"] != DATASOURCE:
                yield f"{panel['title']}: another datasource than that of the variable"
    for part in [*dashboard["templating"]["list"], *dashboard["annotations"]["list"]]:
        if "datasource" in part and part["datasource"] != DATASOURCE:
            yield f"{part['name']}: another datasource than that of the variable"


def _unknown_variables(dashboard: Mapping[str, Any]) -> Iterator[str]:
    defined = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = re.findall(r"\$\{?(\w+)", json.dumps(dashboard))
    for name in sorted({name for name in used if not name.startswith("__")} - defined):
        yield f"${name}: no such variable"
