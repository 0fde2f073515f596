"""What targets receive about an incident."""

from __future__ import annotations

from typing import Final

import msgspec

from epicenter.rules.model.incident import Incident


class Action(msgspec.Struct, frozen=True):
    """A proposal of what automation may do about an incident; epicenter never does it.

    `kind` is drain-node, reset-gpu, reboot-node, restart-job, raise-memory, wait or none; the other fields are its
    parameters, empty where they don't apply. `resume_step` is that of the newest complete checkpoint. Do nothing
    unless `is_allowed`; `why` is what prevents it, or what it is for.
    """

    kind: str = "none"
    nodes: tuple[str, ...] = ()
    gpu: str = ""
    jobs: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    resume_step: int | None = None
    is_dry_run: bool = True
    is_allowed: bool = False
    why: str = ""


class Brief(msgspec.Struct, frozen=True):
    """An incident in short, for the other members of a group."""

    incident_id: str
    status: str
    severity: str
    failure_class: str = msgspec.field(name="class")
    title: str
    cluster: str
    node: str
    jobs: tuple[str, ...]
    first_seen: str
    last_seen: str

    @classmethod
    def of(cls, incident: Incident) -> Brief:
        """The incident in short."""
        return cls(
            incident_id=incident.incident_id,
            status=incident.status,
            severity=incident.severity,
            failure_class=incident.failure_class,
            title=incident.title,
            cluster=incident.cluster,
            node=incident.root_cause.node,
            jobs=incident.jobs,
            first_seen=incident.first_seen,
            last_seen=incident.last_seen,
        )


class Notification(msgspec.Struct, frozen=True):
    """One message to one target, about a group of incidents: in most cases about one.

    `kind` is opened, reopened, updated (the cause, blast radius or severity changed), repeated (still open and not
    acknowledged), escalated, acknowledged or resolved (over, or merged). `event_time` is that of the line, liveness
    verdict or quiet period behind it, ISO 8601. `incident` is the worst of the group, `also` the others, at most
    `MAX_BRIEFS`; `more` counts the rest. `labels` are the labels of `incident` that routes match. `link` leads to the
    page, empty if its address is not configured.
    """

    notification_id: str
    kind: str
    event_time: str
    incident: Incident
    target: str = ""
    group: str = ""
    reason: str = ""
    also: tuple[Brief, ...] = ()
    more: int = 0
    labels: dict[str, tuple[str, ...]] = {}
    action: Action = Action()
    link: str = ""


MAX_BRIEFS: Final = 50


class Acknowledgement(msgspec.Struct, frozen=True):
    """A person takes care of an incident: it is neither repeated nor escalated while its facts stay the same.

    An incident's newest acknowledgement counts, whoever gave it; one that `is_taken_back` ends those before it.
    """

    incident_id: str
    who: str
    given_ns: int
    note: str = ""
    is_taken_back: bool = False
