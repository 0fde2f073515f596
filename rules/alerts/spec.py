"""The shape of `alerts.yaml` without its targets: who is notified of what, and when. Pydantic checks it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from epicenter.rules.documents.strict import DurationNs, Strict
from epicenter.rules.model.times import NS_PER_S


def _as_tuple(value: object) -> object:
    words = tuple(value) if isinstance(value, list | tuple) else (value,)
    if other := [word for word in words if not isinstance(word, str)]:
        raise ValueError(f"YAML does not read {other[0]} as text: put it in quotes")
    return words


def _as_clock(value: object) -> object:
    """YAML reads an unquoted 22:30 as a number of minutes."""
    return f"{value // 60:02d}:{value % 60:02d}" if isinstance(value, int) else value


Clock = Annotated[str, BeforeValidator(_as_clock, json_schema_input_type=str | int)]
"""A time of day, as HH:MM."""

Words = Annotated[tuple[str, ...], BeforeValidator(_as_tuple, json_schema_input_type=str | list[str])]
"""One word or several; `xid-*` fits any ending."""

Match = dict[str, Words]
"""Label -> what it may be; every label in the match must fit. An empty match fits every incident."""


class EscalateSpec(Strict):
    """Further targets to notify if no one acknowledges in time."""

    after: DurationNs
    targets: Annotated[Words, Field(min_length=1)]


class RouteSpec(Strict):
    """Targets of incidents. A route inherits what it leaves out from the route around it.

    An incident goes to the first of `routes` that fits; with `continue`, the routes after it are tried too. If none
    fits, it goes to the route itself. An empty `group_by` puts everything into one group.
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
    """An open incident that fits `source` mutes those that fit `target` and share the labels `equal`."""

    source: Match
    target: Match
    equal: Words = ()


class WeeklySpec(Strict):
    """Hours of every week in a time zone; `days` (mon to sun) are those on which they start.

    An end that is not after the start is on the next day.
    """

    days: Words
    start: Clock
    end: Clock
    timezone: str = "UTC"


class MaintenanceSpec(Strict):
    """A time in which incidents that match are muted: from one time to another, or weekly."""

    match: Match
    who: Annotated[str, Field(min_length=1)]
    reason: Annotated[str, Field(min_length=1)]
    begins: datetime | None = None
    until: datetime | None = None
    weekly: WeeklySpec | None = None


class LabelSpec(Strict):
    """Your labels, such as `team`, for incidents that fit; if several rules set a label, the first counts."""

    match: Match
    set: dict[str, str]


class GuardSpec(Strict):
    """How many nodes and jobs machines may act on before a person must decide. `fleet_share` needs `fleet_nodes`."""

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
