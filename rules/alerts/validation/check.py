"""Every problem in the routing part of `alerts.yaml`, with its line and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from pydantic import HttpUrl, TypeAdapter, ValidationError

from epicenter.rules.alerts import guard, maintenance
from epicenter.rules.alerts.labels import BUILT_IN
from epicenter.rules.alerts.spec import Match, RouteSpec, RoutingSpec
from epicenter.rules.alerts.validation.matchers import Words
from epicenter.rules.alerts.validation.unreachable import Unreachable, unreachable_routes
from epicenter.rules.alerts.validation.world import World
from epicenter.rules.documents.document import Path_, line_of
from epicenter.rules.documents.mistakes import instead

Fault = tuple[Path_, str]
"""Where in the file, and what is wrong with it."""

_LABEL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WEB_ADDRESS: Final = TypeAdapter(HttpUrl)


def routing_faults(spec: RoutingSpec, file: Path, lines: dict[Path_, int], targets: Collection[str]) -> list[str]:
    """Every problem as `file:line: part: what is wrong: what to write instead`, in the order of the file.

    `targets` are the names that the file defines.
    """
    found = sorted(_Check(spec, targets, lines).faults(), key=lambda fault: line_of(lines, fault[0]))
    return [f"{file}:{line_of(lines, path)}: {'.'.join(map(str, path))}: {message}" for path, message in found]


class _Check:
    """One check of a file; it remembers which targets are named, and which matches are already faulty."""

    def __init__(self, spec: RoutingSpec, targets: Collection[str], lines: dict[Path_, int]):
        self._spec = spec
        self._targets = targets
        self._lines = lines
        self._named: set[str] = set()
        self._faulty: set[Path_] = set()
        self._words = Words(spec)
        self._world = World(spec)

    def faults(self) -> Iterator[Fault]:
        """Everything that is wrong."""
        yield from self._outermost()
        yield from self._route(self._spec.route, ("route",), has_targets=False)
        yield from self._label_rules()
        yield from self._inhibit_rules()
        yield from self._windows()
        yield from ((("guard", *where), fault) for where, fault in guard.faults(self._spec.guard))
        yield from _page_url_faults(self._spec.page_url)
        yield from self._unreachable()
        for name in self._targets:
            if name not in self._named:
                yield ("targets", name), "no route uses it: remove it or name it in a route"

    def _outermost(self) -> Iterator[Fault]:
        if self._spec.route.match:
            yield ("route", "match"), "the outermost route fits every incident: move this into its `routes`"
        if self._spec.route.is_continued:
            yield ("route", "continue"), "no route comes after the outermost one: remove it"

    def _route(self, route: RouteSpec, path: Path_, has_targets: bool) -> Iterator[Fault]:
        has_targets = has_targets or route.targets is not None
        if not has_targets:
            yield path, "it has no targets: write `targets`, or `targets: []` to notify no one"
        yield from self._match((*path, "match"), route.match)
        yield from self._known_targets((*path, "targets"), route.targets or ())
        yield from self._known_labels((*path, "group_by"), route.group_by or ())
        if route.update_interval == 0:
            yield (*path, "update_interval"), "every change would be sent at once: write 1s or more"
        if route.repeat_interval == 0:
            yield (*path, "repeat_interval"), "it would repeat without a pause: write 1m or more"
        for number, step in enumerate(route.escalate or ()):
            step_path = (*path, "escalate", number)
            yield from self._known_targets((*step_path, "targets"), step.targets)
            if step.after == 0:
                yield (*step_path, "after"), "it leaves no time to acknowledge: write 5m or more, or use `targets`"
        for number, inner in enumerate(route.routes):
            yield from self._route(inner, (*path, "routes", number), has_targets)

    def _label_rules(self) -> Iterator[Fault]:
        known = list(BUILT_IN)
        for number, rule in enumerate(self._spec.labels):
            path: Path_ = ("labels", number)
            yield from self._match((*path, "match"), rule.match, known)
            if not rule.set:
                yield (*path, "set"), "it sets nothing: write a label with its value, such as `team: ml`"
            for name, value in rule.set.items():
                yield from (((*path, "set", name), fault) for fault in _set_faults(name, value))
            known += rule.set

    def _inhibit_rules(self) -> Iterator[Fault]:
        for number, rule in enumerate(self._spec.inhibit):
            path: Path_ = ("inhibit", number)
            yield from self._match((*path, "source"), rule.source)
            yield from self._match((*path, "target"), rule.target)
            yield from self._known_labels((*path, "equal"), rule.equal)
            if "incident" in rule.equal:
                yield (*path, "equal"), "no two incidents have the same id: remove `incident`"
            if not self._world.allows([], [rule.source]):
                yield (*path, "source"), "every incident would mute others: match the cause"
            elif not self._world.allows([], [rule.target]) and not rule.equal:
                yield (*path, "target"), "every incident would be muted: match the consequences, or write `equal`"
            elif self._are_same(rule.source, rule.target):
                yield path, "source and target fit the same incidents, which would mute each other: make them differ"

    def _windows(self) -> Iterator[Fault]:
        for number, window in enumerate(self._spec.maintenance):
            path: Path_ = ("maintenance", number)
            yield from self._match((*path, "match"), window.match)
            yield from (((*path, *where), fault) for where, fault in maintenance.faults(window))

    def _match(self, path: Path_, match: Match, labels: list[str] | None = None) -> Iterator[Fault]:
        for name, fault in self._words.faults(match, labels):
            self._faulty.add(path)
            yield (*path, name), fault
        is_route = path[0] == "route"
        if not is_route and path not in self._faulty and not self._world.allows([match]):
            yield path, "no incident fits all of it: remove what contradicts the rest"

    def _known_targets(self, path: Path_, names: tuple[str, ...]) -> Iterator[Fault]:
        self._named.update(names)
        for name in names:
            if name not in self._targets:
                yield path, f"no target is called {name}: {instead(name, self._targets)}"

    def _known_labels(self, path: Path_, names: tuple[str, ...]) -> Iterator[Fault]:
        yield from ((path, f"{name}: {fault}") for name in names if (fault := self._words.label_fault(name)))

    def _are_same(self, match: Match, other: Match) -> bool:
        return not self._world.allows([match], [other]) and not self._world.allows([other], [match])

    def _unreachable(self) -> Iterator[Fault]:
        """Unreachable routes, except those with a faulty match, which is reported already."""
        for found in unreachable_routes(self._spec, self._world):
            if (*found.path, "match") not in self._faulty:
                yield found.path, f"no incident reaches this route: {self._why_unreachable(found)}"

    def _why_unreachable(self, found: Unreachable) -> str:
        if found.by == found.path:
            return "its match contradicts itself: remove what contradicts the rest"
        if found.by is None:
            return "earlier routes take all of its incidents: move it before them, or write `continue: true` there"
        line = line_of(self._lines, found.by)
        if found.path[: len(found.by)] == found.by:
            return f"its match contradicts the routes around it, up to line {line}: move it out of them"
        taken = f"the route at line {line} takes all of its incidents"
        return f"{taken}: move it before that one, or write `continue: true` there"


def _set_faults(name: str, value: str) -> Iterator[str]:
    if name in BUILT_IN:
        yield f"every incident already has the label {name}: choose another name"
    elif not _LABEL_NAME.fullmatch(name):
        yield "a label's name has only letters, digits and _, and does not begin with a digit: choose such a name"
    if not value:
        yield "it sets nothing: write a value"


def _page_url_faults(page_url: str) -> Iterator[Fault]:
    if not page_url:
        return
    try:
        url = _WEB_ADDRESS.validate_python(page_url)
    except ValidationError:
        yield ("page_url",), "it is not a web address: write https://host/path"
    else:
        if url.username or url.password:
            yield ("page_url",), "every notification contains it: remove name and password"
