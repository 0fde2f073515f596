"""Labels of an incident -> its targets and groups, and what mutes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from epicenter.rules.alerts import maintenance, tree
from epicenter.rules.alerts.inhibit import OpenIncidents
from epicenter.rules.alerts.labels import Labels, built_in_labels
from epicenter.rules.alerts.match import fits
from epicenter.rules.alerts.mute import Mute
from epicenter.rules.alerts.spec import RoutingSpec
from epicenter.rules.alerts.tree import RouteTarget
from epicenter.rules.documents.document import line_of
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Outcome

__all__ = ["Labels", "RouteTarget", "Routed", "Routing"]


class Routed(NamedTuple):
    """The targets of an incident, each once per `after_ns`, and why, route by route."""

    route_targets: tuple[RouteTarget, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Routing:
    """A checked `alerts.yaml`; `lines` has the line of each part of it."""

    spec: RoutingSpec
    file: str = "alerts.yaml"
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)

    def labels_of(self, incident: Incident) -> Labels:
        """The labels of an incident, with those that the file adds."""
        found = dict(built_in_labels(incident))
        for rule in self.spec.labels:
            if fits(found, rule.match):
                found |= {name: (value,) for name, value in rule.set.items() if name not in found}
        return found

    def route(self, labels: Labels) -> Routed:
        """The targets of an incident with these labels."""
        walked = tree.Walk(labels, self._place)
        walked.enter(self.spec.route, ("route",), tree.DEFAULTS)
        return Routed(walked.route_targets, tuple(walked.reasons))

    def inhibited_by(self, labels: Labels, open_incidents: OpenIncidents) -> Mute | None:
        """The inhibition by an open incident; None when there is none.

        Of incidents that mute each other in a ring, the one with the smallest id is not muted.
        """
        if not (found := open_incidents.inhibiting(labels)):
            return None
        place = self._place(("inhibit", found.number))
        return Mute(Outcome.INHIBITED, by=found.incident_id, why=found.why, place=place)

    def maintenance(self, labels: Labels, now_ns: int) -> Mute | None:
        """The maintenance window that mutes it now; None when none does."""
        for number, window in enumerate(self.spec.maintenance):
            until = maintenance.ends(window, now_ns)
            if until and fits(labels, window.match):
                place, end = self._place(("maintenance", number)), f"{until:%Y-%m-%d %H:%M %Z}"
                return Mute(Outcome.MAINTENANCE, by=window.who, why=window.reason, until=end, place=place)
        return None

    def _place(self, path: tuple[str | int, ...]) -> str:
        name = Path(self.file).name
        return f"{name}:{line_of(self.lines, path)}" if self.lines else name
