"""What a person means by an id: the whole id, a start that only one has, or `newest`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from epicenter.rules.errors import InputError
from epicenter.rules.model.incident import Incident
from epicenter.sinks.clickhouse import reading
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.text.incident_document import decode_incident
from epicenter.sinks.text.sanitize import sanitize

NEWEST: Final = "newest"
MIN_LENGTH: Final = 3
MAX_CANDIDATES: Final = 5
MAX_SHOWN: Final = 80


class UnknownIdError(InputError):
    """Nothing has this id, or the ids of several begin with it."""


def named_incident(client: Client, name: str) -> Incident:
    """The incident with this id, the only one whose id begins like this, or the first of the list for `newest`.

    Raises:
        UnknownIdError: there is none, or there are several.
    """
    if name == NEWEST:
        if not (found := reading.find_incidents(client, reading.IncidentFilter(), 1)):
            raise UnknownIdError("newest: no incident is stored yet")
        return found[0]
    rows = client.query(
        "SELECT incident_id, status, formatDateTime(first_seen, '%FT%TZ', 'UTC'), class, document FROM incidents FINAL"
        " WHERE startsWith(incident_id, {prefix:String}) ORDER BY incident_id LIMIT {limit:UInt32}",
        {"prefix": name, "limit": MAX_CANDIDATES + 1},
    )
    chosen = the_one("incident", name, [(row[0], "  ".join(row[1:4])) for row in rows])
    return decode_incident(next(row[4] for row in rows if row[0] == chosen), f"stored incident {chosen}")


def the_one(what: str, name: str, candidates: Sequence[tuple[str, str]]) -> str:
    """The id that a name means, of those that begin with it; each comes with what tells it from the others.

    Raises:
        UnknownIdError: there is none, there are several, or the name is too short.
    """
    ids, shown = [candidate for candidate, _ in candidates], sanitize(name[:MAX_SHOWN])
    if name in ids:
        return name
    if not name or not ids:
        raise UnknownIdError(f"{shown}: no such {what}: give an id, or the start of one")
    if len(ids) == 1 and len(name) >= MIN_LENGTH:
        return ids[0]
    lines = [f"  {candidate}  {sanitize(about)}" for candidate, about in candidates[:MAX_CANDIDATES]]
    more = ["  …"] if len(ids) > MAX_CANDIDATES else []
    request = f"{shown}: write more of the id, at least {MIN_LENGTH} characters. These begin like this:"
    raise UnknownIdError("\n".join([request, *lines, *more]))
