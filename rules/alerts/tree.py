"""A walk through the tree of routes: which targets get an incident with these labels, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from epicenter.rules.alerts.labels import Labels
from epicenter.rules.alerts.match import fits, why_it_fits, why_not
from epicenter.rules.alerts.spec import EscalateSpec, RouteSpec
from epicenter.rules.model.times import NS_PER_S

Place = tuple[str | int, ...]


class RouteTarget(NamedTuple):
    """A target of a route. `after_ns` is 0, or how long an escalation waits for an acknowledgement.

    `route` is the route's place, such as `alerts.yaml:12`. Routes with the same target, grouping and `after_ns` share
    their groups.
    """

    target: str
    route: str
    group_by: tuple[str, ...] = ("incident",)
    group_wait_ns: int = 0
    update_interval_ns: int = 0
    repeat_interval_ns: int = 0
    after_ns: int = 0


class RouteOptions(NamedTuple):
    """The options of a route, inherited ones included. Times in ns."""

    targets: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ("incident",)
    group_wait_ns: int = 0
    update_interval_ns: int = 60 * NS_PER_S
    repeat_interval_ns: int = 4 * 3600 * NS_PER_S
    escalate: tuple[EscalateSpec, ...] = ()

    def within(self, route: RouteSpec) -> RouteOptions:
        """The options of a route inside this one."""
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
        """One for each target, escalations last."""
        targets_by_delay = [(0, self.targets), *((step.after, step.targets) for step in self.escalate)]
        options = self.group_by, self.group_wait_ns, self.update_interval_ns, self.repeat_interval_ns
        for after_ns, targets in targets_by_delay:
            yield from (RouteTarget(target, route, *options, after_ns) for target in targets)


DEFAULTS: Final = RouteOptions()


class Walk:
    """Walks the routes for one set of labels; `reasons` has a line for each route."""

    def __init__(self, labels: Labels, place: Callable[[Place], str]):
        self.reasons: list[str] = []
        self._labels = labels
        self._place = place
        self._route_targets: dict[tuple[str, int], RouteTarget] = {}

    @property
    def route_targets(self) -> tuple[RouteTarget, ...]:
        """The targets found, in the order of the file."""
        return tuple(self._route_targets.values())

    def enter(self, route: RouteSpec, path: Place, around: RouteOptions) -> bool:
        """Try a route and those inside it; false when it does not fit."""
        place, options = self._place(path), around.within(route)
        if not fits(self._labels, route.match):
            self.reasons.append(f"{place}: {why_not(self._labels, route.match)}")
            return False
        self.reasons.append(f"{place}: {why_it_fits(self._labels, route.match)}: matches")
        fits_at = len(self.reasons) - 1
        if not self._enter_inner(route, path, options):
            self.reasons[fits_at] += f", {_targets_text(options)}"
            self._take(options, place)
        return True

    def _enter_inner(self, route: RouteSpec, path: Place, options: RouteOptions) -> bool:
        """Try the routes inside this one, up to the first that fits without `continue`."""
        found = False
        for number, inner in enumerate(route.routes):
            inner_path = (*path, "routes", number)
            if self.enter(inner, inner_path, options):
                found = True
                if not inner.is_continued:
                    matched = self._place(inner_path)
                    rest = range(number + 1, len(route.routes))
                    places = [self._place((*path, "routes", other)) for other in rest]
                    self.reasons += [f"{place}: skipped, {matched} matched first" for place in places]
                    break
        return found

    def _take(self, options: RouteOptions, place: str) -> None:
        for route_target in options.route_targets(place):
            self._route_targets.setdefault((route_target.target, route_target.after_ns), route_target)


def _targets_text(options: RouteOptions) -> str:
    return f"notifies {', '.join(options.targets)}" if options.targets else "notifies no one"
