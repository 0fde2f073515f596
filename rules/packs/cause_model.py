"""The numbers of the ranking: how often each class is a cause, and how much each kind of evidence and doubt weighs.

Packs hold them (`rules/catalog/cause_model.yaml`); a later pack replaces single numbers. All are logarithms of odds to
base 2: a weight of 1 doubles the odds, -1 halves them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from epicenter.rules.packs.spec import is_named
from epicenter.rules.packs.weights import CauseModelSpec, PriorSpec, WeightSpec


@dataclass(frozen=True)
class CauseModel:
    """The weights in use. What no pack weighs counts nothing.

    `none` is for the cause to be none of the answers, where the first is wrong.
    """

    priors: tuple[PriorSpec, ...] = ()
    evidence: Mapping[str, float] = field(default_factory=dict)
    doubts: Mapping[str, float] = field(default_factory=dict)
    none: float = 0.0
    _prior_by_class: dict[str, float] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, specs: Iterable[CauseModelSpec]) -> CauseModel:
        """The weights of packs, oldest first."""
        model = cls()
        for spec in specs:
            evidence = {**model.evidence, **_weights(spec.evidence)}
            doubts = {**model.doubts, **_weights(spec.doubts)}
            none = spec.none.weight if spec.none else model.none
            model = cls((*spec.priors, *model.priors), evidence, doubts, none)
        return model

    def prior(self, failure_class: str) -> float:
        """The weight of a class; 0 where no prior names it."""
        if failure_class not in self._prior_by_class:
            found = (prior.weight for prior in self.priors if is_named(failure_class, prior.classes))
            self._prior_by_class[failure_class] = next(found, 0.0)
        return self._prior_by_class[failure_class]

    def weight(self, evidence: str) -> float:
        """The weight of a kind of evidence."""
        return self.evidence.get(evidence, 0.0)

    def points(self, failure_class: str, evidence: Iterable[str]) -> float:
        """What a class is worth with this evidence: each point doubles its odds."""
        return self.prior(failure_class) + sum([self.evidence.get(name, 0.0) for name in evidence])

    def doubt(self, name: str) -> float:
        """How much a doubt weighs for the odds that the first answer is wrong."""
        return self.doubts.get(name, 0.0)


def ratio(points: float) -> float:
    """How many times as likely something is with that many points."""
    return math.pow(2.0, points)


def _weights(specs: Mapping[Any, WeightSpec]) -> dict[str, float]:
    return {name: spec.weight for name, spec in specs.items()}


NO_CAUSE_MODEL: Final = CauseModel()
