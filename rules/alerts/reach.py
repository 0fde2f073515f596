"""Which routes no incident can reach: what fits them contradicts itself, the routes around them, or goes elsewhere.

An incident is thought of as free to have any labels that do not exclude each other. So a route that is told as
unreachable is; one that only other knowledge could rule out is not told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from rules.alerts.labels import ALWAYS_THERE, SEVERAL_VALUES, Labels
from rules.alerts.match import fits_word, unwanted, values_of, wanted
from rules.alerts.samples import samples
from rules.alerts.spec import Match, RouteSpec, RoutingSpec
from rules.document import Path_
from rules.model import SEVERITIES
from rules.vocabulary import vocabulary

_MOST_TRIES: Final = 10_000
"""Then a route counts as reachable."""


Placed = tuple[Path_, Match]
"""A match, and where its route stands."""


class Demand(NamedTuple):
    """Of one label: one of the words has to fit a value (`is_wanted`), or none of them may fit any."""

    label: str
    words: tuple[str, ...]
    is_wanted: bool


class Unreachable(NamedTuple):
    """A route that no incident reaches. `by` is what is in its way: itself, one around it, or one before it.

    It is None when it takes several of those before it together.
    """

    path: Path_
    by: Path_ | None


def unreachable_routes(spec: RoutingSpec, world: World) -> Iterator[Unreachable]:
    """The routes that no incident reaches; of those inside such a one nothing is told."""
    yield from _unreachable(world, spec.route, ("route",), (), ())


def _unreachable(
    world: World,
    route: RouteSpec,
    path: Path_,
    around: tuple[Placed, ...],
    taken: tuple[Placed, ...],
) -> Iterator[Unreachable]:
    """`around` are the routes that lead here, `taken` those that take before them; each with its path."""
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


def _demands(match: Match) -> list[Demand]:
    """What has to hold so that the match fits: all of it."""
    needs = [Demand(name, some, True) for name, words in match.items() if (some := wanted(words))]
    return needs + [Demand(name, none, False) for name, words in match.items() if (none := unwanted(words))]


def _refusals(match: Match) -> list[Demand]:
    """What may hold so that the match does not fit: one of these."""
    return [demand._replace(is_wanted=not demand.is_wanted) for demand in _demands(match)]


class World:
    """Every incident that there may be, as values for each label that stands for itself."""

    def __init__(self, spec: RoutingSpec):
        self._words = _words_by_label(spec)
        self._own = {name: [rule.set[name] for rule in spec.labels if name in rule.set] for name in own_labels(spec)}
        self._samples: dict[str, list[Labels] | None] = {}
        self._known: dict[frozenset[Demand], bool] = {}

    def allows(self, matches: Sequence[Match], refused: Sequence[Match] = ()) -> bool:
        """Whether an incident may fit all of the matches and none of the refused ones."""
        self._tries = 0
        demands = tuple(demand for match in matches for demand in _demands(match))
        return self._search(demands, [_refusals(match) for match in refused])

    def _search(self, demands: tuple[Demand, ...], open_choices: list[list[Demand]]) -> bool:
        self._tries += 1
        if self._tries > _MOST_TRIES:
            return True
        if not self._can_hold(demands):
            return False
        choices = [[one for one in choice if self._can_hold((*demands, one))] for choice in open_choices]
        if not choices:
            return True
        narrowest = min(choices, key=len)
        choices.remove(narrowest)
        return any(self._search((*demands, one), choices) for one in narrowest)

    def _can_hold(self, demands: Iterable[Demand]) -> bool:
        by_subject: dict[str, set[Demand]] = {}
        for demand in demands:
            by_subject.setdefault(_subject(demand.label), set()).add(demand)
        return all(self._has_value(subject, frozenset(found)) for subject, found in by_subject.items())

    def _has_value(self, subject: str, demands: frozenset[Demand]) -> bool:
        if demands not in self._known:
            self._known[demands] = self._finds_value(subject, demands)
        return self._known[demands]

    def _finds_value(self, subject: str, demands: frozenset[Demand]) -> bool:
        if subject not in ALWAYS_THERE and all(_meets({}, demand) for demand in demands):
            return True
        if subject not in self._samples:
            self._samples[subject] = self._make_samples(subject)
        found = self._samples[subject]
        if found is None:
            return True
        if subject not in SEVERAL_VALUES:
            return any(all(_meets(labels, demand) for demand in demands) for labels in found)
        allowed = [one for one in found if all(demand.is_wanted or _meets(one, demand) for demand in demands)]
        return bool(allowed) and all(
            any(_meets(labels, demand) for labels in allowed) for demand in demands if demand.is_wanted
        )

    def _make_samples(self, subject: str) -> list[Labels] | None:
        """The labels of an incident that are about this, once for each value worth a look; None when too many are."""
        if subject == "severity":
            return [{subject: (name,)} for name in SEVERITIES]
        if subject in self._own:
            return [{subject: (name,)} for name in self._own[subject]]
        if subject != "class":
            found = samples(self._words.get(subject, ()))
            return None if found is None else [{subject: (value,)} for value in found]
        families = vocabulary().family_by_class
        found = samples({*self._words.get("class", ()), *(name for name in families if "*" in name)})
        return None if found is None else [_class_labels(name) for name in {*families, *found} if "*" not in name]


def own_labels(spec: RoutingSpec) -> set[str]:
    """The labels that the file sets."""
    return {name for rule in spec.labels for name in rule.set}


def _subject(label: str) -> str:
    """What a label is about: a family is known when the class is."""
    return "class" if label == "family" else label


def _class_labels(name: str) -> Labels:
    family = vocabulary().family(name)
    return {"class": (name,), "family": (family,)} if family else {"class": (name,)}


def _meets(labels: Labels, demand: Demand) -> bool:
    found = any(fits_word(value, word) for value in values_of(labels, demand.label) for word in demand.words)
    return found is demand.is_wanted


def _words_by_label(spec: RoutingSpec) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for match in matches_of(spec):
        for name, words in match.items():
            found.setdefault(name, set()).update(word for word in (*wanted(words), *unwanted(words)) if word)
    return found


def matches_of(spec: RoutingSpec) -> Iterator[Match]:
    """Every match in the file."""
    yield from _matches_in(spec.route)
    yield from (rule.match for rule in spec.labels)
    yield from chain.from_iterable((rule.source, rule.target) for rule in spec.inhibit)
    yield from (window.match for window in spec.maintenance)


def _matches_in(route: RouteSpec) -> Iterator[Match]:
    yield route.match
    yield from chain.from_iterable(map(_matches_in, route.routes))
