"""Which open incident mutes another one, such as a cause its consequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rules.alerts.labels import Labels
from rules.alerts.match import fits, values_of, why_it_fits
from rules.alerts.spec import InhibitSpec


class Inhibiting(NamedTuple):
    """The incident that mutes another one, by which rule, and in words why."""

    incident_id: str
    number: int
    why: str

    def told(self, place: str) -> str:
        """The reason in words; `place` is where the rule stands."""
        return f"by incident {self.incident_id}: {self.why} ({place})"


def inhibiting(rules: Sequence[InhibitSpec], labels: Labels, others: Iterable[tuple[str, Labels]]) -> Inhibiting | None:
    """What mutes an incident with these labels; of several the one with the smallest id, by the first rule.

    Of incidents that mute each other, directly or in a ring, the smallest id is muted by none of them: somebody is
    always told.
    """
    (own_id,) = values_of(labels, "incident")
    labels_by_id = {other_id: other for other_id, other in others if other_id != own_id}
    rivals: set[str] | None = None
    for other_id in sorted(labels_by_id):
        number = _muting_rule(rules, labels_by_id[other_id], labels)
        if number is None:
            continue
        if own_id < other_id:
            rivals = _all_muted_by(rules, labels, labels_by_id) if rivals is None else rivals
            if other_id in rivals:
                continue
        return Inhibiting(other_id, number, _why(rules[number], labels_by_id[other_id], labels))
    return None


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
    """The values that both have; that both have none is one too."""
    return set(values_of(source, name)) & set(values_of(target, name))


def _all_muted_by(rules: Sequence[InhibitSpec], labels: Labels, labels_by_id: Mapping[str, Labels]) -> set[str]:
    """The ids of all that it mutes, directly or through others."""
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
