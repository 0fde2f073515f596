"""The shape of the part of `alerts.yaml` that says who is notified of what, and when; pydantic checks it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from epicenter.rules.documents.strict import DurationNs, Strict
from epicenter.rules.model.times import NS_PER_S


def _as_tuple(value: object) -> object:
    words = tuple(value) if isinstance(value, list | tuple) else (value,)
    if odd := [word for word in words if not isinstance(word, str)]:
        raise ValueError(f"{odd[0]} is no text for YAML: put it in quotes")
    return words


def _as_clock(value: object) -> object:
    """YAML reads an unquoted 22:30 as a number of minutes."""
    return f"{value // 60:02d}:{value % 60:02d}" if isinstance(value, int) else value


Clock = Annotated[str, BeforeValidator(_as_clock, json_schema_input_type=str | int)]
"""A time of day, as HH:MM."""

Words = Annotated[tuple[str, ...], BeforeValidator(_as_tuple, json_schema_input_type=str | list[str])]
"""One word or several; `xid-*` stands for any ending."""

Match = dict[str, Words]
"""Label -> what it may be; every label named has to fit. An empty match fits everything."""


class EscalateSpec(Strict):
    """Targets to notify too if no one acknowledges in time."""

    after: DurationNs
    targets: Annotated[Words, Field(min_length=1)]


class RouteSpec(Strict):
    """Targets of incidents. What a route leaves out it takes from the route around it.

    Of `routes` the first that fits takes the incident, and with `continue` those after it are looked at too; when none
    fits, the route itself takes it. An empty `group_by` makes one group of everything.
    """

    match: Match = Field(default_factory=dict)
    targets: Words | None = None
    is_continued: Annotated[bool, Field(alias="continue")] = False
    group_by: Words | None = None
    group_wait: DurationNs | None = None
    update_interval: DurationNs | None = None
    repeat_interval: DurationNs | None = None
    escalate: tuple[EscalateSpec, ...] | None = None
    routes: tuple[RouteSpec, ...] = ()


class InhibitSpec(Strict):
    """While an incident that fits `source` is open, those that fit `target` and share the labels `equal` are muted."""

    source: Match
    target: Match
    equal: Words = ()


class WeeklySpec(Strict):
    """Hours of every week, by the clock of a time zone: `days` mon to sun, on which they start.

    What ends no later than it starts ends on the next day.
    """

    days: Words
    start: Clock
    end: Clock
    timezone: str = "UTC"


class MaintenanceSpec(Strict):
    """A window without notifications of incidents that match: from one time to another, or weekly."""

    match: Match
    who: Annotated[str, Field(min_length=1)]
    reason: Annotated[str, Field(min_length=1)]
    begins: datetime | None = None
    until: datetime | None = None
    weekly: WeeklySpec | None = None


class LabelSpec(Strict):
    """Labels of our own, such as `team`, for incidents that fit; of several rules the first one that sets it counts."""

    match: Match
    set: dict[str, str]


class GuardSpec(Strict):
    """How much may be acted on at once, before a person has to look. `fleet_share` needs `fleet_nodes`."""

    nodes_per_hour: Annotated[int, Field(ge=0)] = 4
    jobs_per_hour: Annotated[int, Field(ge=0)] = 20
    fleet_share: Annotated[float, Field(gt=0, le=1)] = 0.02
    fleet_nodes: Annotated[int, Field(ge=1)] | None = None


class RoutingSpec(Strict):
    """Everything in the file except the targets. `grace_period`: how long a liveness verdict stays pending."""

    route: RouteSpec
    labels: tuple[LabelSpec, ...] = ()
    inhibit: tuple[InhibitSpec, ...] = ()
    maintenance: tuple[MaintenanceSpec, ...] = ()
    guard: GuardSpec = GuardSpec()
    actions: Literal["dry-run", "allowed"] = "dry-run"
    grace_period: DurationNs = 20 * NS_PER_S
    page_url: str = ""
