"""The incident list's query string, parsed and built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from epicenter.rules.model.signals import SEVERITIES
from epicenter.rules.model.times import NS_PER_S, duration_ns
from epicenter.sinks.clickhouse.overview import GROUP_COLUMNS
from epicenter.sinks.clickhouse.reading import IncidentFilter

MAX_LENGTH: Final = 200
MAX_TERMS: Final = 8
PER_PAGE: Final = 50
LAST_PAGE: Final = 1_000
PERIODS: Final = {"1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days"}
"""The periods of the time filter: incidents seen within them. The filter also takes a day, on which they began."""
PAGES_AROUND: Final = 2
_FIELDS: Final = {"node": "node", "job": "job", "class": "failure_class", "cluster": "cluster"}
_DAY_NS: Final = 86_400 * NS_PER_S
MAX_TIME_NS: Final = 2**63 - _DAY_NS


class ListQuery(msgspec.Struct, frozen=True):
    """A query of the incident list; `q` is free text that may contain `node:x`, `job:x`, `class:x` and `cluster:x`.

    `time` is a period of `PERIODS` or a day (`2026-03-02`), `group` what to group by; `view` is `compact` or empty.
    """

    q: str = ""
    status: str = ""
    severity: str = ""
    failure_class: str = msgspec.field(default="", name="class")
    cluster: str = ""
    time: str = ""
    group: str = ""
    view: str = ""
    page: int = 1

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> ListQuery:
        """The query of an address; invalid parts are ignored."""
        page = parameters.get("page", "1")
        number = int(page) if page.isascii() and page.isdecimal() and len(page) < 5 else 1
        q, status, failure_class, cluster, time = (
            parameters.get(name, "").strip()[:MAX_LENGTH] for name in ("q", "status", "class", "cluster", "time")
        )
        return cls(
            q=q,
            status=status,
            severity=_known(parameters, "severity", SEVERITIES),
            failure_class=failure_class,
            cluster=cluster,
            time=time if time in PERIODS or _day_ns(time) is not None else "",
            group=_known(parameters, "group", tuple(GROUP_COLUMNS)),
            view=_known(parameters, "view", ("compact",)),
            page=min(max(number, 1), LAST_PAGE),
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether any filter is set."""
        return bool(self.q or self.status or self.severity or self.failure_class or self.cluster or self.time)

    @property
    def offset(self) -> int:
        """The number of incidents before this page."""
        return (self.page - 1) * PER_PAGE

    def store_filter(self, now_ns: int = 0) -> IncidentFilter:
        """The filter for the store; a period of time ends at `now_ns`."""
        fields: dict[str, Any] = {
            "status": self.status,
            "severity": self.severity,
            "failure_class": self.failure_class,
            "cluster": self.cluster,
        }
        terms: list[str] = []
        for word in self.q.split():
            name, colon, value = word.partition(":")
            if colon and value and name.lower() in _FIELDS:
                fields[_FIELDS[name.lower()]] = value
            else:
                terms.append(word.lower())
        if self.time in PERIODS:
            fields["since_ns"] = max(0, now_ns - duration_ns(self.time))
        elif (day_ns := _day_ns(self.time)) is not None:
            fields["began_from_ns"], fields["began_before_ns"] = day_ns, day_ns + _DAY_NS
        return IncidentFilter(**fields, terms=terms[:MAX_TERMS])

    def address(self, **changed: object) -> str:
        """The list's address with `changed` applied; empty parts are left out."""
        parts = {**msgspec.to_builtins(self), "page": 1, **{name.rstrip("_"): value for name, value in changed.items()}}
        parameters = {name: value for name, value in parts.items() if value and not (name == "page" and value == 1)}
        return "/?" + urlencode(parameters, errors="backslashreplace") if parameters else "/"

    def of_group(self, name: str) -> str:
        """The address of the incidents of one group of this list."""
        return self.address(**self._group_filters(name))

    def filter_of_group(self, name: str) -> str:
        """What the incidents of one group change of the list's filters, as the query of an address."""
        return urlencode(self._group_filters(name), errors="backslashreplace")

    def _group_filters(self, name: str) -> dict[str, str]:
        return {"group": "", **({"q": f"{self.q} node:{name}".strip()} if self.group == "node" else {"class": name})}


def page_numbers(page: int, count: int) -> Sequence[int | None]:
    """The pages to link to: the first, the last and those around `page`; None is a gap."""
    last = min(LAST_PAGE, max(1, -(-count // PER_PAGE)))
    shown = sorted({1, last, *range(max(1, page - PAGES_AROUND), min(last, page + PAGES_AROUND) + 1)})
    numbers: list[int | None] = []
    for number in shown:
        before = numbers[-1] if numbers else 0
        if before is not None and number - before == 2:
            numbers.append(number - 1)
        elif before is not None and number - before > 2:
            numbers.append(None)
        numbers.append(number)
    return numbers


def _known(parameters: Mapping[str, str], name: str, values: Sequence[str]) -> str:
    value = parameters.get(name, "")
    return value if value in values else ""


def _day_ns(text: str) -> int | None:
    try:
        time_ns = int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) * NS_PER_S
    except ValueError:
        return None
    return time_ns if 0 < time_ns < MAX_TIME_NS else None
