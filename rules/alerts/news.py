"""What of an incident is worth telling: the cause, how far it reaches by order of magnitude, and its state."""

from __future__ import annotations

from typing import Final, NamedTuple

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Brief
from epicenter.rules.model.signals import SEVERITIES

KINDS: Final = ("opened", "reopened", "escalated", "updated", "acknowledged", "resolved", "repeated")
"""Of several news of a group, the first of these names them all."""

BEGINNINGS: Final = ("opened", "reopened", "escalated")
REFUSED: Final = "refused"
"""Instead of open: what a target did not want to hear of. It hears again when there is something else to say."""


class Age(NamedTuple):
    """Grows with an incident's life, and is the same for the same news when logs are read again."""

    reopened: int
    is_resolved: bool
    signal_count: int

    @classmethod
    def of(cls, incident: Incident) -> Age:
        """How far the incident has come."""
        return cls(incident.reopened, incident.status == "resolved", incident.signal_count)


def digest(incident: Incident) -> str:
    """What people were told, in short: while it is the same, there is nothing new to tell."""
    root = incident.root_cause
    rank = "" if root.rank is None else root.rank
    cause = f"{root.failure_class}/{root.node}/{root.gpu}/{rank}"
    reach = incident.blast_radius
    return f"{cause}/{incident.severity}/{magnitude(reach.nodes)}/{magnitude(reach.jobs)}"


def magnitude(count: int) -> int:
    """The class of a number of things: 0, 1, then 2 for up to nine, 3 for up to 99 and so on."""
    return count if count < 2 else len(str(count)) + 1


def news_of(incident: Incident, told: str, told_status: str) -> str:
    """The kind of news that an incident is to people who were told `told`; empty when it is none.

    What was over before anybody heard of it is no news.
    """
    if incident.status == "resolved":
        return "resolved" if told_status == "open" else ""
    if told_status in ("open", REFUSED) and told == digest(incident):
        return ""
    if told_status == "open":
        return "updated"
    return "reopened" if incident.reopened else "opened"


def worst_first(brief: Brief | Incident) -> tuple[bool, int, str, str]:
    """The order in which a group's incidents are told: open ones, the most severe, the earliest."""
    severity = SEVERITIES.index(brief.severity) if brief.severity in SEVERITIES else 0
    return (brief.status != "open", -severity, brief.first_seen, brief.incident_id)


def event_time(incident: Incident) -> str:
    """When what it last told happened: a line, a silence, or the quiet time that ended it."""
    return max((incident.last_seen, *(change.time for change in incident.history)))
