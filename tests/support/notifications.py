"""Notifications for tests of targets."""

from __future__ import annotations

from time import time_ns
from typing import Any

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Brief, Notification
from epicenter.sinks.notify.config import TemplateSpec
from epicenter.sinks.notify.load import make_target
from epicenter.sinks.notify.samples import samples
from epicenter.sinks.notify.target import Target
from tests.support.incidents import opened_and_resolved

SAMPLES = tuple(samples())
MUCH = SAMPLES[0]
LITTLE = SAMPLES[7]


def a_notification(kind: str = "opened", notification: Notification = MUCH, **changes: Any) -> Notification:
    """A sample, of another kind and with other fields of its incident."""
    status = "resolved" if kind == "resolved" else "open"
    incident = msgspec.structs.replace(notification.incident, **{"status": status, **changes})
    return msgspec.structs.replace(notification, kind=kind, incident=incident)


def real(incident_id: str = "", kind: str = "opened", also: tuple[Incident, ...] = ()) -> Notification:
    """About an incident as the engine makes it."""
    opened, resolved = opened_and_resolved()
    incident = resolved if kind == "resolved" else opened
    incident = msgspec.structs.replace(incident, incident_id=incident_id or incident.incident_id)
    return Notification(
        f"{incident.incident_id}-{kind}", kind, incident.last_seen, incident, also=tuple(map(Brief.of, also))
    )


def a_target(spec: type[Any], template: TemplateSpec | None = None, clock: Any = time_ns, **written: Any) -> Target:
    """A target made from these settings."""
    return make_target("ops", spec.model_validate(written), template, clock)
