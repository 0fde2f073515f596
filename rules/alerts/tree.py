"""A walk through the tree of routes: who is told of something with these labels, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from epicenter.rules.alerts.labels import Labels
from epicenter.rules.alerts.match import fits, why_it_fits, why_not
from epicenter.rules.alerts.spec import EscalateSpec, RouteSpec
from epicenter.rules.model.times import NS_PER_S

Place = tuple[str | int, ...]


class RouteTarget(NamedTuple):
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


class Telling(NamedTuple):
    """How a route tells, with all that it has from the routes around it. Times in ns."""

    targets: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ("incident",)
    group_wait_ns: int = 0
    update_interval_ns: int = 60 * NS_PER_S
    repeat_interval_ns: int = 4 * 3600 * NS_PER_S
    escalate: tuple[EscalateSpec, ...] = ()

    def within(self, route: RouteSpec) -> Telling:
        """The same for a route inside it."""
        own: dict[str, Any] = {
            "targets": route.targets,
            "group_by": route.group_by,
            "group_wait_ns": route.group_wait,
            "update_interval_ns": route.update_interval,
            "repeat_interval_ns": route.repeat_interval,
            "escalate": route.escalate,
        }
        return self._replace(**{name: value for name, value in own.items() if value is not None})

    def route_targets(self, route: str) -> Iterator[RouteTarget]:
        """A leg for each target, those that are told at once first."""
        ways = [(0, self.targets), *((one.after, one.targets) for one in self.escalate)]
        pace = self.group_by, self.group_wait_ns, self.update_interval_ns, self.repeat_interval_ns
        for after_ns, targets in ways:
            yield from (RouteTarget(target, route, *pace, after_ns) for target in targets)


DEFAULTS: Final = Telling()


class Walk:
    """Looks through the routes for one set of labels; `reasons` has a line for each route."""

    def __init__(self, labels: Labels, place: Callable[[Place], str]):
        self.reasons: list[str] = []
        self._labels = labels
        self._place = place
        self._legs: dict[tuple[str, int], RouteTarget] = {}

    @property
    def route_targets(self) -> tuple[RouteTarget, ...]:
        """The ways found, in the order of the file."""
        return tuple(self._legs.values())

    def enter(self, route: RouteSpec, path: Place, around: Telling) -> bool:
        """Look at a route and those inside it; false when it does not fit."""
        place, telling = self._place(path), around.within(route)
        if not fits(self._labels, route.match):
            self.reasons.append(f"{place}: {why_not(self._labels, route.match)}")
            return False
        self.reasons.append(f"{place}: {why_it_fits(self._labels, route.match)}: fits")
        said_at = len(self.reasons) - 1
        if not self._enter_inner(route, path, telling):
            self.reasons[said_at] += f", {_told(telling)}"
            self._take(telling, place)
        return True

    def _enter_inner(self, route: RouteSpec, path: Place, telling: Telling) -> bool:
        """Look at the routes inside one, up to the first that fits without `continue`."""
        found = False
        for number, inner in enumerate(route.routes):
            inner_path = (*path, "routes", number)
            if self.enter(inner, inner_path, telling):
                found = True
                if not inner.is_continued:
                    taken_by = self._place(inner_path)
                    rest = range(number + 1, len(route.routes))
                    places = [self._place((*path, "routes", other)) for other in rest]
                    self.reasons += [f"{place}: not looked at, {taken_by} takes it" for place in places]
                    break
        return found

    def _take(self, telling: Telling, place: str) -> None:
        for route_target in telling.route_targets(place):
            self._legs.setdefault((route_target.target, route_target.after_ns), route_target)


def _told(telling: Telling) -> str:
    return f"tells {', '.join(telling.targets)}" if telling.targets else "tells nobody"
