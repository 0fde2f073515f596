"""Every possible incident, as far as the matches of a file distinguish them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from epicenter.rules.alerts.labels import ALWAYS_THERE, SEVERAL_VALUES, Labels
from epicenter.rules.alerts.match import fits_word, unwanted, values_of, wanted
from epicenter.rules.alerts.spec import Match, RouteSpec, RoutingSpec
from epicenter.rules.alerts.validation.samples import samples
from epicenter.rules.model.signals import SEVERITIES
from epicenter.rules.packs.vocabulary import vocabulary

_MAX_LOOKS: Final = 50_000
"""After this many looks at a refused match, an incident counts as possible."""


class Demand(NamedTuple):
    """On one label: one of the words must fit a value (`is_wanted`), or none of them may fit any."""

    label: str
    words: tuple[str, ...]
    is_wanted: bool


class Effect(NamedTuple):
    """What a demand leaves of a subject: which of its values, as bits, and whether it may be absent.

    `needs_any`: one of several values must be among them, not all. `subject` is empty if nothing is excluded.
    """

    subject: str
    values: int
    can_be_absent: bool
    needs_any: bool


class Left(NamedTuple):
    """What is left of a subject: its possible values, of which one must be in each of `needs`."""

    values: int
    can_be_absent: bool
    needs: frozenset[int] = frozenset()

    def after(self, effect: Effect) -> Left:
        """What one more demand leaves."""
        can_be_absent = self.can_be_absent and effect.can_be_absent
        if effect.needs_any:
            return Left(self.values, can_be_absent, self.needs | {effect.values})
        return Left(self.values & effect.values, can_be_absent, self.needs)

    @property
    def is_possible(self) -> bool:
        """Whether such an incident is possible."""
        return self.can_be_absent or (bool(self.values) and all(self.values & need for need in self.needs))


class World:
    """Whether an incident may fit some matches and not others.

    Labels are independent, except that the class decides the family: together they are one subject.
    """

    def __init__(self, spec: RoutingSpec):
        self._words = _words_by_label(spec)
        self._own = {name: [rule.set[name] for rule in spec.labels if name in rule.set] for name in own_labels(spec)}
        self._samples: dict[str, list[Labels] | None] = {}
        self._effects: dict[Demand, Effect] = {}

    def allows(self, matches: Sequence[Match], refused: Sequence[Match] = ()) -> bool:
        """Whether an incident may fit all of the matches and none of the refused ones."""
        self._looks = 0
        left: dict[str, Left] = {}
        for demand in chain.from_iterable(map(_demands, matches)):
            left = self._after(left, self._effect(demand))
        choices = [[self._effect(demand) for demand in _refusals(match)] for match in refused]
        return all(subject.is_possible for subject in left.values()) and self._search(left, choices)

    def _search(self, left: dict[str, Left], choices: Sequence[Sequence[Effect]]) -> bool:
        """Whether one effect of each choice is possible too; the choice with the fewest effects is tried first."""
        still_open = []
        for choice in choices:
            self._looks += 1
            after = [(effect, self._after(left, effect)) for effect in choice]
            if any(then == left for _, then in after):
                continue
            possible = [(effect, then) for effect, then in after if then[effect.subject].is_possible]
            if not possible:
                return False
            still_open.append(possible)
        if not still_open or self._looks > _MAX_LOOKS:
            return True
        narrowest = min(still_open, key=len)
        rest = [[effect for effect, _ in possible] for possible in still_open if possible is not narrowest]
        return any(self._search(then, rest) for _, then in narrowest)

    def _after(self, left: dict[str, Left], effect: Effect) -> dict[str, Left]:
        if not effect.subject:
            return left
        before = left.get(effect.subject) or self._everything(effect.subject)
        return {**left, effect.subject: before.after(effect)}

    def _everything(self, subject: str) -> Left:
        return Left((1 << len(self._samples_of(subject) or ())) - 1, subject not in ALWAYS_THERE)

    def _effect(self, demand: Demand) -> Effect:
        if demand not in self._effects:
            self._effects[demand] = self._find_effect(demand)
        return self._effects[demand]

    def _find_effect(self, demand: Demand) -> Effect:
        subject = "class" if demand.label == "family" else demand.label
        found = self._samples_of(subject)
        if found is None:
            return Effect("", 0, True, False)
        values = sum(1 << number for number, labels in enumerate(found) if _meets(labels, demand))
        return Effect(subject, values, _meets({}, demand), demand.is_wanted and subject in SEVERAL_VALUES)

    def _samples_of(self, subject: str) -> list[Labels] | None:
        if subject not in self._samples:
            self._samples[subject] = self._make_samples(subject)
        return self._samples[subject]

    def _make_samples(self, subject: str) -> list[Labels] | None:
        """The labels of this subject, once for each value worth a look; None if there are too many."""
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


def _demands(match: Match) -> list[Demand]:
    """All that must hold so that the match fits."""
    needs = [Demand(name, some, True) for name, words in match.items() if (some := wanted(words))]
    return needs + [Demand(name, none, False) for name, words in match.items() if (none := unwanted(words))]


def _refusals(match: Match) -> list[Demand]:
    """If one of these holds, the match does not fit."""
    return [demand._replace(is_wanted=not demand.is_wanted) for demand in _demands(match)]


def _class_labels(name: str) -> Labels:
    family = vocabulary().family(name)
    return {"class": (name,), "family": (family,)} if family else {"class": (name,)}


def _meets(labels: Labels, demand: Demand) -> bool:
    found = any(fits_word(value, word) for value in values_of(labels, demand.label) for word in demand.words)
    return found is demand.is_wanted


def _words_by_label(spec: RoutingSpec) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for match in _matches(spec):
        for name, words in match.items():
            found.setdefault(name, set()).update(filter(None, (*wanted(words), *unwanted(words))))
    return found


def _matches(spec: RoutingSpec) -> Iterator[Match]:
    yield from _matches_in(spec.route)
    yield from (rule.match for rule in spec.labels)
    yield from chain.from_iterable((rule.source, rule.target) for rule in spec.inhibit)
    yield from (window.match for window in spec.maintenance)


def _matches_in(route: RouteSpec) -> Iterator[Match]:
    yield route.match
    yield from chain.from_iterable(map(_matches_in, route.routes))
