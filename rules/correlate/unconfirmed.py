"""Incidents that are recorded as open, but that no state knows any more: its data were lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from epicenter.rules.model.incident import Change, Incident, Resolution
from epicenter.rules.model.times import iso_from_ns

WHY: Final = "epicenter lost the state that it was part of, and no line confirms it any more"


def unconfirmed(recorded: Iterable[Incident], known: Collection[str], time_ns: int) -> list[Incident]:
    """The ends, with that reason, of the incidents that are open in their newest revision and not `known`, by id."""
    newest = {incident.incident_id: incident for incident in sorted(recorded, key=_revision)}
    lost = [incident for name, incident in sorted(newest.items()) if name not in known]
    return [_ended(incident, time_ns) for incident in lost if incident.status == "open" and not incident.merged_into]


def _revision(incident: Incident) -> int:
    return incident.revision


def _ended(incident: Incident, time_ns: int) -> Incident:
    return msgspec.structs.replace(
        incident,
        revision=incident.revision + 1,
        status="resolved",
        resolved_by=Resolution.STATE_LOST,
        history=(*incident.history, Change(iso_from_ns(time_ns), f"resolved: {WHY}")),
    )
