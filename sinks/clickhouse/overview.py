"""Incidents counted for the list: in all, by day, by node and by class."""

from __future__ import annotations

from typing import Final

import msgspec

from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.reading import IncidentFilter, condition_of

GROUP_COLUMNS: Final = {"node": "root_node", "class": "class"}
"""What incidents can be grouped by, with its column."""


class DayCount(msgspec.Struct, frozen=True):
    """The incidents that began on a day; `day` counts from 1 Jan 1970, UTC."""

    day: int
    count: int
    open: int


class IncidentGroup(msgspec.Struct, frozen=True):
    """Incidents with one root node or class; `others` are their classes or root nodes, most frequent first."""

    name: str
    count: int
    open: int
    severity: str
    newest_ns: int
    clusters: tuple[str, ...]
    others: tuple[str, ...]


def count_incidents(client: Client, selected: IncidentFilter) -> int:
    """The number of matching incidents."""
    condition, parameters = condition_of(selected)
    return int(client.query(f"SELECT count() FROM incidents FINAL WHERE {condition}", parameters)[0][0])


def open_by_kind(client: Client) -> list[tuple[str, str, int]]:
    """Severity, class and number of the open incidents."""
    found = client.query(
        "SELECT severity, class, count() FROM incidents FINAL WHERE status = 'open' AND merged_into = ''"
        " GROUP BY severity, class ORDER BY severity, class"
    )
    return [(str(severity), str(name), int(number)) for severity, name, number in found]


def incidents_by_day(client: Client, selected: IncidentFilter) -> list[DayCount]:
    """Matching incidents by the day on which they began, oldest first; days without any are left out."""
    condition, parameters = condition_of(selected)
    found = client.query(
        "SELECT intDiv(toUnixTimestamp64Nano(first_seen), 86400000000000) AS day, count(), countIf(status = 'open')"
        f" FROM incidents FINAL WHERE {condition} GROUP BY day ORDER BY day",
        parameters,
    )
    return [DayCount(*row) for row in found]


def group_incidents(
    client: Client, selected: IncidentFilter, by: str, limit: int, offset: int = 0
) -> tuple[list[IncidentGroup], int]:
    """Matching incidents by a column of `GROUP_COLUMNS`, those with open ones and many first; and how many groups."""
    condition, parameters = condition_of(selected)
    other = next(column for name, column in GROUP_COLUMNS.items() if name != by)
    found = client.query(
        f"SELECT {GROUP_COLUMNS[by]} AS name, count() AS incidents, countIf(status = 'open') AS open_count,"
        " argMax(severity, indexOf(['info', 'warning', 'error', 'critical'], severity)),"
        " toUnixTimestamp64Nano(max(last_seen)) AS newest_ns, arraySort(groupUniqArray(8)(cluster)),"
        f" topK(4)({other}), count() OVER () FROM incidents FINAL WHERE {condition} GROUP BY name"
        " ORDER BY open_count DESC, incidents DESC, newest_ns DESC, name LIMIT {limit:UInt32} OFFSET {offset:UInt32}",
        {**parameters, "limit": limit, "offset": offset},
    )
    groups = [
        IncidentGroup(name, number, opened, severity, newest_ns, tuple(clusters), tuple(filter(None, others)))
        for name, number, opened, severity, newest_ns, clusters, others, _ in found
    ]
    return groups, int(found[0][-1]) if found else 0
