"""Which routes no incident can reach: their match contradicts itself or the routes around it, or others come first.

Incidents are assumed to have any labels that do not exclude each other. So every route reported is unreachable; one
that only further knowledge could rule out is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from epicenter.rules.alerts.spec import Match, RouteSpec, RoutingSpec
from epicenter.rules.alerts.validation.world import World
from epicenter.rules.documents.document import Path_

Placed = tuple[Path_, Match]
"""A match, and where its route is."""


class Unreachable(NamedTuple):
    """A route that no incident reaches. `by` is the route in its way: itself, one around it, or one before it.

    It is None if only several routes before it together are in its way.
    """

    path: Path_
    by: Path_ | None


def unreachable_routes(spec: RoutingSpec, world: World) -> Iterator[Unreachable]:
    """The routes that no incident reaches, without the routes inside them."""
    yield from _unreachable(world, spec.route, ("route",), (), ())


def _unreachable(
    world: World, route: RouteSpec, path: Path_, around: tuple[Placed, ...], taken: tuple[Placed, ...]
) -> Iterator[Unreachable]:
    """`around` are the routes that lead here, `taken` those that come first; each with its path."""
    needs = [*(match for _, match in around), route.match]
    if not world.allows([route.match]):
        yield Unreachable(path, path)
    elif not world.allows(needs):
        yield Unreachable(path, around[-1][0])
    elif not world.allows(needs, [match for _, match in taken]):
        yield Unreachable(path, next((place for place, match in taken if not world.allows(needs, [match])), None))
    else:
        before: tuple[Placed, ...] = ()
        for number, inner in enumerate(route.routes):
            inner_path = (*path, "routes", number)
            yield from _unreachable(world, inner, inner_path, (*around, (path, route.match)), taken + before)
            if not inner.is_continued:
                before = (*before, (inner_path, inner.match))
