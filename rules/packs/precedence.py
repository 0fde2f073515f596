"""Which of the rules that match one line count: harmless rules win on their text, fallbacks lose to other failures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from epicenter.rules.model.signals import QUIET_ROLES
from epicenter.rules.packs.ruleset import Rule

MIN_EVIDENCE = "python-exception"
_NO_FAILURE_ROLES = (*QUIET_ROLES, "advice", "finished")

Span = tuple[int, int]
"""Bytes of a line, end not included."""


class LineHit(msgspec.Struct, frozen=True):
    """A rule that matches a line, with its fields."""

    rule: Rule
    fields: Mapping[str, str]

    @property
    def is_failure(self) -> bool:
        """Whether it reports a failure."""
        return reports_failure(self.rule.spec.role)

    @property
    def failure_class(self) -> str:
        """The class, with its field filled in."""
        return self.rule.class_of(self.fields)


def reports_failure(role: str) -> bool:
    """Whether rules with this role report a failure."""
    return role not in _NO_FAILURE_ROLES


def is_harmless(rule: Rule) -> bool:
    """Whether the rule matches known noise."""
    return rule.spec.role == "harmless"


def without_needless_fallbacks(hits: Sequence[LineHit]) -> list[LineHit]:
    """The hits of one line or block without superfluous fallbacks.

    A fallback is superfluous next to any other failure. Of several fallbacks, those more specific than a Python
    exception win.
    """
    if len(hits) < 2:
        return list(hits)
    known = named_or_all(hits)
    failures = [hit for hit in known if hit.is_failure]
    strongest = max(map(_strength, failures), default=0)

    def counts(hit: LineHit) -> bool:
        spec = hit.rule.spec
        if not hit.is_failure:
            return not (failures and spec.knows_only_structure)
        return _strength(hit) == strongest or not spec.fallback

    return list(filter(counts, known))


def named_or_all(hits: Sequence[LineHit]) -> list[LineHit]:
    """The hits of rules that know the line, unless there are none: they know better than one for its structure."""
    return [hit for hit in hits if not hit.rule.spec.knows_only_structure] or list(hits)


def _strength(hit: LineHit) -> int:
    if not hit.rule.spec.fallback:
        return 2
    return int(hit.failure_class != MIN_EVIDENCE)


def first_outside(places: Iterable[re.Match[bytes]], harmless: Sequence[Span]) -> re.Match[bytes] | None:
    """The first of a rule's matches in a line that does not overlap harmless text; None if there is none."""
    return next((place for place in places if not _lies_over(place.span(), harmless)), None)


def _lies_over(span: Span, others: Sequence[Span]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)
