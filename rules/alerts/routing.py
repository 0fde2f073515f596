"""Labels of an incident -> who is told, in which groups, and what keeps them from being told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rules.alerts.spec import RoutingSpec
from rules.model import Incident

Labels = Mapping[str, tuple[str, ...]]
"""Each label with its values: a job's label has as many as the incident has jobs. An unknown one is left out."""


class Leg(NamedTuple):
    """One way to one target. `after_ns` is 0, or how long an escalation waits for an acknowledgement.

    `route` says where the route stands, as `alerts.yaml:12`. Legs with the same target, grouping and `after_ns` are one
    way, whatever route they come from.
    """

    target: str
    route: str
    group_by: tuple[str, ...] = ("incident",)
    group_wait_ns: int = 0
    update_interval_ns: int = 0
    repeat_interval_ns: int = 0
    after_ns: int = 0


class Routed(NamedTuple):
    """Where an incident goes, each target once for each `after_ns`, and why, route by route."""

    legs: tuple[Leg, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Routing:
    """A checked `alerts.yaml`; `lines` leads from a part of it to its line."""

    spec: RoutingSpec
    file: str = "alerts.yaml"
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)

    def labels_of(self, incident: Incident) -> Labels:
        """What routes, silences and inhibitions see of an incident."""
        raise NotImplementedError

    def route(self, labels: Labels) -> Routed:
        """Who is told of it."""
        raise NotImplementedError

    def inhibited_by(self, labels: Labels, others: Iterable[tuple[str, Labels]]) -> str:
        """Why it is muted by one of the other open incidents (id, labels); empty when it is not."""
        raise NotImplementedError

    def maintenance(self, labels: Labels, now_ns: int) -> str:
        """Which window mutes it now, with who and why; empty when none does."""
        raise NotImplementedError
