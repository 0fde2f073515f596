"""Which of the rules that fit one line stand: harmless text wins where it lies, and fallbacks only speak alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rules.model import QUIET_ROLES
from rules.ruleset import Rule

LEAST_TELLING = "python-exception"
_SAYS_NO_FAILURE = (*QUIET_ROLES, "advice", "finished")


@dataclass(frozen=True)
class LineHit:
    """A rule that fits a line, with its fields and the bytes of the line that it lies over (end not included)."""

    rule: Rule
    fields: Mapping[str, str]
    span: tuple[int, int]

    @property
    def is_failure(self) -> bool:
        """Whether it says that something failed."""
        return says_failure(self.rule.spec.role)

    @property
    def failure_class(self) -> str:
        """The class, with its field filled in."""
        return self.rule.class_of(self.fields)


def says_failure(role: str) -> bool:
    """Whether lines of rules with this role say that something failed."""
    return role not in _SAYS_NO_FAILURE


def standing(hits: Sequence[LineHit]) -> list[LineHit]:
    """The hits of one line without those that lie over harmless text, and without needless fallbacks."""
    harmless = [hit.span for hit in hits if hit.rule.spec.role == "harmless"]
    kept = [hit for hit in hits if hit.rule.spec.role == "harmless" or not _lies_over(hit.span, harmless)]
    return without_needless_fallbacks(kept)


def without_needless_fallbacks(hits: Sequence[LineHit]) -> list[LineHit]:
    """The hits of one line or block without the fallbacks that others make needless.

    Any other failure does, and of several fallbacks each does that says more than that Python raised something.
    """
    failures = [hit for hit in hits if hit.is_failure]
    strongest = max(map(_strength, failures), default=0)
    return [hit for hit in hits if not hit.is_failure or _strength(hit) == strongest or not hit.rule.spec.fallback]


def _strength(hit: LineHit) -> int:
    if not hit.rule.spec.fallback:
        return 2
    return int(hit.failure_class != LEAST_TELLING)


def _lies_over(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)
