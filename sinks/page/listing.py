"""The incident list: what it shows of the store, prepared for the template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.signals import SEVERITIES
from epicenter.sinks.clickhouse import operator_actions, overview, reading
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.operator_actions import proposed_matchers
from epicenter.sinks.page.search import PER_PAGE, PERIODS, ListQuery, page_numbers
from epicenter.sinks.page.strip import strip_of
from epicenter.sinks.text.incident_view import IncidentView


class Listing(msgspec.Struct, frozen=True):
    """One page of the list. `counts` are of the whole store, `count` is of the rows that match."""

    counts: Sequence[reading.Group] = ()
    count: int = 0
    incidents: Sequence[Incident] = ()
    groups: Sequence[overview.IncidentGroup] = ()
    days: Sequence[overview.DayCount] = ()
    acknowledgements: Sequence[Acknowledgement] = ()


def load_listing(client: Client, query: ListQuery, now_ns: int) -> Listing:
    """What the store holds for a query of the list."""
    selected = query.store_filter(now_ns)
    every_day = msgspec.structs.replace(query, time="").store_filter()
    counts, days = reading.incident_groups(client), overview.incidents_by_day(client, every_day)
    if query.group:
        groups, count = overview.group_incidents(client, selected, query.group, PER_PAGE, query.offset)
        return Listing(counts, count, groups=groups, days=days)
    incidents = reading.find_incidents(client, selected, PER_PAGE, query.offset)
    ids = [incident.incident_id for incident in incidents]
    acknowledgements = operator_actions.list_acknowledgements(client, incident_ids=ids)
    return Listing(counts, overview.count_incidents(client, selected), incidents, (), days, acknowledgements)


def template_variables(listing: Listing, query: ListQuery, now_ns: int) -> dict[str, Any]:
    """The variables of the template `incidents.html`."""
    clusters = sorted({group.cluster for group in listing.counts})
    return {
        "query": query,
        "total": sum(group.count for group in listing.counts),
        "open_count": sum(group.count for group in listing.counts if group.status == "open"),
        "count": listing.count,
        "views": list(map(IncidentView, listing.incidents)),
        "rows": listing.groups,
        "strip": strip_of(listing.days, now_ns),
        "acknowledgements": operator_actions.active_acknowledgements(listing.acknowledgements),
        "pages": page_numbers(query.page, listing.count),
        "periods": PERIODS,
        "severities": SEVERITIES[::-1],
        "classes": sorted({group.failure_class for group in listing.counts}),
        "listed_clusters": clusters,
        "matchers_of": silence_text,
    }


def silence_text(incident: Incident) -> str:
    """What a silence of this incident mutes: `class xid-79, node node0003, cluster east`."""
    return ", ".join(f"{name} {value}" for name, value in proposed_matchers(incident).items() if value)
