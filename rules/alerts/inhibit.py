"""Which open incident mutes another one, as a cause mutes its consequences."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import NamedTuple

from epicenter.rules.alerts.labels import Labels
from epicenter.rules.alerts.match import fits, values_of, why_it_fits
from epicenter.rules.alerts.spec import InhibitSpec


class Inhibiting(NamedTuple):
    """The incident that mutes another one, the number of the rule, and why in words."""

    incident_id: str
    number: int
    why: str


class OpenIncidents:
    """The open incidents that may mute others, indexed by the first label that a rule requires both to share."""

    def __init__(self, rules: Sequence[InhibitSpec], incidents: Iterable[tuple[str, Labels]] = ()):
        self._rules = rules
        self._labels_by_id: dict[str, Labels] = {}
        self._ids_by_key: dict[tuple[int, str], list[str]] = {}
        for incident_id, labels in incidents:
            self.put(incident_id, labels)

    def put(self, incident_id: str, labels: Labels) -> None:
        """Add an open incident, or change its labels."""
        if self._labels_by_id.get(incident_id) != labels:
            self.drop(incident_id)
            self._labels_by_id[incident_id] = labels
            for key in self._keys_as_source(labels):
                insort(self._ids_by_key.setdefault(key, []), incident_id)

    def drop(self, incident_id: str) -> None:
        """Remove an incident that is no longer open."""
        for key in self._keys_as_source(self._labels_by_id.pop(incident_id, None)):
            ids = self._ids_by_key[key]
            del ids[bisect_left(ids, incident_id)]
            if not ids:
                del self._ids_by_key[key]

    def inhibiting(self, labels: Labels) -> Inhibiting | None:
        """The open incident that mutes one with these labels; of several, the one with the smallest id.

        Of incidents that mute each other, directly or in a ring, the one with the smallest id is not muted by the
        others, so that one notification is always sent.
        """
        (own_id,) = values_of(labels, "incident")
        rivals: set[str] | None = None
        for other_id in self._near(labels):
            if other_id == own_id:
                continue
            other = self._labels_by_id[other_id]
            number = _muting_rule(self._rules, other, labels)
            if number is None:
                continue
            if own_id < other_id:
                rivals = _all_muted_by(self._rules, labels, self._labels_by_id) if rivals is None else rivals
                if other_id in rivals:
                    continue
            return Inhibiting(other_id, number, _why(self._rules[number], other, labels))
        return None

    def _keys_as_source(self, labels: Labels | None) -> list[tuple[int, str]]:
        if labels is None:
            return []
        fitting = ((number, rule) for number, rule in enumerate(self._rules) if fits(labels, rule.source))
        return [key for number, rule in fitting for key in _keys(number, rule, labels)]

    def _near(self, labels: Labels) -> Iterator[str]:
        """The ids that may mute it, judged by one label, smallest first."""
        fitting = ((number, rule) for number, rule in enumerate(self._rules) if fits(labels, rule.target))
        keys = [key for number, rule in fitting for key in _keys(number, rule, labels)]
        return merge(*(self._ids_by_key.get(key, ()) for key in keys))


def _keys(number: int, rule: InhibitSpec, labels: Labels) -> list[tuple[int, str]]:
    return [(number, value) for value in (values_of(labels, rule.equal[0]) if rule.equal else ("",))]


def _muting_rule(rules: Sequence[InhibitSpec], source: Labels, target: Labels) -> int | None:
    """The first rule by which one mutes the other."""
    found = (number for number, rule in enumerate(rules) if _mutes(rule, source, target))
    return next(found, None)


def _mutes(rule: InhibitSpec, source: Labels, target: Labels) -> bool:
    return (
        fits(target, rule.target)
        and fits(source, rule.source)
        and all(_shared(source, target, name) for name in rule.equal)
    )


def _shared(source: Labels, target: Labels, name: str) -> set[str]:
    """The values that both have; a label that both lack counts as shared."""
    return set(values_of(source, name)) & set(values_of(target, name))


def _all_muted_by(rules: Sequence[InhibitSpec], labels: Labels, labels_by_id: Mapping[str, Labels]) -> set[str]:
    """The ids of all incidents that it mutes, directly or through others."""
    if not any(fits(labels, rule.source) for rule in rules):
        return set()
    left, muted, sources = dict(labels_by_id), set[str](), [labels]
    while sources:
        found = dict(_muted(rules, sources.pop(), left))
        left = {name: other for name, other in left.items() if name not in found}
        muted |= found.keys()
        sources += found.values()
    return muted


def _muted(
    rules: Sequence[InhibitSpec], source: Labels, labels_by_id: Mapping[str, Labels]
) -> Iterator[tuple[str, Labels]]:
    return ((name, other) for name, other in labels_by_id.items() if _muting_rule(rules, source, other) is not None)


def _why(rule: InhibitSpec, source: Labels, target: Labels) -> str:
    shared = [f"{name} {min(_shared(source, target, name)) or 'unknown'}" for name in rule.equal]
    return f"its {why_it_fits(source, rule.source)}" + (f", and both have {', '.join(shared)}" if shared else "")
