"""An incident as it is shown: times that are only places in the order of lines are empty."""

from __future__ import annotations

from msgspec import structs

from epicenter.rules.model.incident import ChainLink, Incident
from epicenter.rules.model.times import known_iso


def with_known_times(incident: Incident) -> Incident:
    """The incident with an empty text for each time that its lines don't say."""
    if known_iso(incident.first_seen):
        return incident
    progress = {
        job: structs.replace(found, last_step_time=known_iso(found.last_step_time))
        for job, found in incident.progress.items()
    }
    root = incident.root_cause
    return structs.replace(
        incident,
        root_cause=structs.replace(root, event_time=known_iso(root.event_time)),
        chain=tuple(map(_link, incident.chain)),
        progress=progress,
        first_seen=known_iso(incident.first_seen),
        last_seen=known_iso(incident.last_seen),
        history=tuple(structs.replace(change, time=known_iso(change.time)) for change in incident.history),
    )


def _link(link: ChainLink) -> ChainLink:
    return structs.replace(link, event_time=known_iso(link.event_time), onset=known_iso(link.onset))
