"""Incident -> Notification: what a revision gives to tell that was not told before."""

from __future__ import annotations

from collections.abc import Container

from rules.model import Incident, Notification, stable_id


def due(incident: Incident, told: Container[str]) -> Notification | None:
    """What people should hear now; `told` are the ids of the notifications that they got.

    An incident is told when it opens, each time it comes back, and when it is over. That it is over, or goes on in
    another one, is told only after its opening was: of what was merged or resolved before, nobody hears.
    """
    opened, resolved = _id(incident, "opened"), _id(incident, "resolved")
    if incident.status == "open" and opened not in told:
        return Notification(opened, "reopened" if incident.reopened else "opened", incident.last_seen, incident)
    if incident.status == "resolved" and opened in told and resolved not in told:
        time = max((incident.last_seen, *(change.time for change in incident.history)))
        return Notification(resolved, "resolved", time, incident)
    return None


def _id(incident: Incident, kind: str) -> str:
    return stable_id("notification", incident.incident_id, kind, incident.reopened)
