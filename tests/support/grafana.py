"""Expands a dashboard's queries as Grafana and its ClickHouse plugin do: the result is what the database receives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

ALL: Final = "$__all"
Value = str | Sequence[str]


class View(msgspec.Struct, frozen=True):
    """A user's choice: a time range, the width of a bucket, and a value for each variable."""

    begins: datetime
    ends: datetime
    values: Mapping[str, Value]
    interval_s: int = 300


class Query(msgspec.Struct, frozen=True):
    """One query of a dashboard; `format` is that of the plugin: 0 time series, 1 table."""

    dashboard: str
    where: str
    sql: str
    format: int


def read_dashboards(folder: Path) -> dict[str, dict[str, Any]]:
    """Every dashboard of a folder by its file's name without the ending."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def queries_of(name: str, dashboard: Mapping[str, Any]) -> Iterator[Query]:
    """Every query of its panels, variables and annotations."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield Query(name, f"{panel['title']} [{target['refId']}]", target["rawSql"], target["format"])
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield Query(name, f"variable {variable['name']}", variable["query"]["rawSql"], 1)
    for annotation in dashboard["annotations"]["list"]:
        yield Query(name, f"annotation {annotation['name']}", annotation["target"]["rawSql"], 1)


def expanded(sql: str, view: View) -> str:
    """The query as the database gets it: conditions on All, then variables, then macros, as the plugin does it."""
    return _macros(_variables(_conditional_alls(sql, view.values), view.values), view)


# ---- variables -------------------------------------------------------------------------------------------------------


def _conditional_alls(sql: str, values: Mapping[str, Value]) -> str:
    """`$__conditionalAll(condition, $variable)`, the last first; the condition only if something was chosen."""
    macro = "$__conditionalAll("
    while (begins := sql.rfind(macro)) >= 0:
        (condition, variable), ends = _arguments(sql, begins + len(macro))
        value = values[re.sub(r"[${}\s]", "", variable)]
        chosen = value if isinstance(value, str) else ",".join(value)
        sql = sql[:begins] + ("1=1" if chosen in ("", ALL) else condition) + sql[ends:]
    return sql


def _variables(text: str, values: Mapping[str, Value]) -> str:
    def written(found: re.Match[str]) -> str:
        name, form = found["braced"] or found["plain"], found["form"] or ""
        if name.startswith("__"):
            return found[0]
        return FORMATS[form](values[name])

    return re.sub(r"\$\{(?P<braced>\w+)(?::(?P<form>\w+))?\}|\$(?P<plain>\w+)", written, text)


def _by_the_plugin(value: Value) -> str:
    return value if isinstance(value, str) else "'" + "','".join(value) + "'"


def _single_quoted(value: Value) -> str:
    """Grafana's `singlequote`: quotes are escaped, backslashes are not."""
    parts = [value] if isinstance(value, str) else value
    return ",".join("'" + part.replace("'", "\\'") + "'" for part in parts)


def _percent_encoded(value: Value) -> str:
    return quote(value if isinstance(value, str) else "{" + ",".join(value) + "}", safe="-_.~")


FORMATS: Final[Mapping[str, Callable[[Value], str]]] = {
    "": _by_the_plugin,
    "raw": lambda value: value if isinstance(value, str) else ",".join(value),
    "singlequote": _single_quoted,
    "percentencode": _percent_encoded,
}


# ---- macros ----------------------------------------------------------------------------------------------------------


def _macros(sql: str, view: View) -> str:
    """Expand the innermost macro first; one without brackets has no arguments."""
    while found := list(re.finditer(r"\$__(\w+)", sql)):
        macro = found[-1]
        arguments, ends = _arguments(sql, macro.end() + 1) if sql[macro.end() :][:1] == "(" else ([], macro.end())
        sql = sql[: macro.start()] + MACROS[macro[1]](view, *arguments) + sql[ends:]
    return sql


def _seconds(moment: datetime) -> str:
    return f"toDateTime({int(moment.timestamp())})"


def _milliseconds(moment: datetime) -> str:
    return f"fromUnixTimestamp64Milli({int(moment.timestamp() * 1000)})"


def _date(moment: datetime) -> str:
    return f"toDate('{moment.astimezone(UTC):%Y-%m-%d}')"


def _between(column: str, begins: str, ends: str) -> str:
    return f"{column} >= {begins} AND {column} <= {ends}"


def _interval(view: View, column: str) -> str:
    return f"toStartOfInterval(toDateTime({column}), INTERVAL {max(view.interval_s, 1)} second)"


def _interval_ms(view: View, column: str) -> str:
    return f"toStartOfInterval(toDateTime64({column}, 3), INTERVAL {max(view.interval_s, 1) * 1000} millisecond)"


MACROS: Final[Mapping[str, Callable[..., str]]] = {
    "fromTime": lambda view: _seconds(view.begins),
    "toTime": lambda view: _seconds(view.ends),
    "fromTime_ms": lambda view: _milliseconds(view.begins),
    "toTime_ms": lambda view: _milliseconds(view.ends),
    "timeFilter": lambda view, column: _between(column, _seconds(view.begins), _seconds(view.ends)),
    "timeFilter_ms": lambda view, column: _between(column, _milliseconds(view.begins), _milliseconds(view.ends)),
    "dateFilter": lambda view, column: _between(column, _date(view.begins), _date(view.ends)),
    "timeInterval": _interval,
    "timeInterval_ms": _interval_ms,
    "interval_s": lambda view: str(max(view.interval_s, 1)),
}


def _arguments(sql: str, begins: int) -> tuple[list[str], int]:
    """The arguments of a call whose first one begins here, split at its own commas, and where the call ends."""
    arguments, depth, quoted, start, at = [], 0, "", begins, begins
    while depth or quoted or sql[at] != ")":
        sign = sql[at]
        if quoted:
            at += sign == "\\"
            quoted = "" if sign == quoted else quoted
        elif sign in "'\"`":
            quoted = sign
        elif sign == "," and not depth:
            arguments.append(sql[start:at].strip())
            start = at + 1
        else:
            depth += (sign in "([") - (sign in ")]")
        at += 1
    return [*arguments, sql[start:at].strip()], at + 1
