"""Why to notify: an incident's cause, severity, state or order of magnitude has changed."""

from __future__ import annotations

from typing import Final, NamedTuple

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Brief
from epicenter.rules.model.signals import SEVERITIES

KINDS: Final = ("opened", "reopened", "escalated", "updated", "acknowledged", "resolved", "repeated")
"""The reasons to notify. A notification's kind is the first of these that applies."""

BEGINNINGS: Final = ("opened", "reopened", "escalated")
REFUSED: Final = "refused"
"""A member's status instead of open: the target rejected the notification. It gets another only after a change."""


class Age(NamedTuple):
    """The order of an incident's revisions. Reading logs again gives a revision the same age."""

    reopened: int
    is_resolved: bool
    signal_count: int

    @classmethod
    def of(cls, incident: Incident) -> Age:
        """The age of this revision."""
        return cls(incident.reopened, incident.status == "resolved", incident.signal_count)


def change_key(incident: Incident) -> str:
    """What a notification depends on: while it stays the same, the target is not notified again."""
    root = incident.root_cause
    rank = "" if root.rank is None else root.rank
    cause = f"{root.failure_class}/{root.node}/{root.gpu}/{rank}"
    reach = incident.blast_radius
    return f"{cause}/{incident.severity}/{magnitude(reach.nodes)}/{magnitude(reach.jobs)}"


def magnitude(count: int) -> int:
    """The order of magnitude: 0, 1, then 2 for up to nine, 3 for up to 99 and so on."""
    return count if count < 2 else len(str(count)) + 1


def notify_reason(incident: Incident, notified_key: str, notified_status: str) -> str:
    """Why to notify a group that was last notified of `notified_key`; empty when there is no reason.

    An incident that resolved before any notification gives none.
    """
    if incident.status == "resolved":
        return "resolved" if notified_status == "open" else ""
    if notified_status in ("open", REFUSED) and notified_key == change_key(incident):
        return ""
    if notified_status == "open":
        return "updated"
    return "reopened" if incident.reopened else "opened"


def worst_first(brief: Brief | Incident) -> tuple[bool, int, str, str]:
    """The order of a group's incidents in a notification: open ones, the most severe, the earliest."""
    severity = SEVERITIES.index(brief.severity) if brief.severity in SEVERITIES else 0
    return (brief.status != "open", -severity, brief.first_seen, brief.incident_id)


def event_time(incident: Incident) -> str:
    """The event time of its newest change: a line, a liveness verdict, or the quiet period that resolved it."""
    return max((incident.last_seen, *(change.time for change in incident.history)))
