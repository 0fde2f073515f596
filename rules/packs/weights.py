"""The shape of the part of a pack that ranks causes, as people write it in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from epicenter.rules.documents.strict import Strict

EvidenceName = Literal[
    "awaited-by-kernel",
    "awaited",
    "named-by-peers",
    "lost-another",
    "explained-by",
    "shared-explanation",
    "survived",
    "cleared",
    "outlasted",
    "unnamed",
    "cut-traceback",
    "idle-warning",
    "afterwards",
    "node-named-elsewhere",
    "kernel",
    "explains",
    "alone",
    "earliest",
    "role-root",
    "role-cascade",
    "role-confirmation",
    "role-teardown",
    "role-advice",
    "standstill",
]
"""What speaks for or against one candidate."""

DoubtName = Literal[
    "any",
    "no-node",
    "no-kernel-log",
    "unseen-ranks",
    "mute-nodes",
    "cut-log",
    "usual-effect",
    "unseen-cause",
    "only-waiting",
    "back-dated",
    "no-line",
    "rival",
    "unusual-cause",
    "explained",
    "outlasted",
    "kernel",
    "usual-cause",
    "awaited",
    "named-by-peers",
    "lost-another",
    "standstill",
    "earliest",
    "family-nvidia",
    "family-cuda",
    "family-machine",
    "family-storage",
    "family-network",
    "family-collectives",
    "family-processes",
    "family-slurm",
]
"""What makes the first answer less likely to be right, or likelier; the last ones are families of its class."""

EVIDENCE: Final[tuple[str, ...]] = get_args(EvidenceName)
DOUBTS: Final[tuple[str, ...]] = get_args(DoubtName)
MAX_WEIGHT: Final = 20.0
"""Odds of a million: more than any evidence is worth."""

_Weight = Annotated[float, Field(ge=-MAX_WEIGHT, le=MAX_WEIGHT)]
_Text = Annotated[str, Field(min_length=1)]


class WeightSpec(Strict):
    """A weight, and where it is from: `fit: ...`, a publication, or who judged it.

    A fit starts at `judged`, and stays near it where there are few cases; without it, it leaves the weight as it is.
    """

    weight: _Weight
    source: _Text
    judged: _Weight | None = None


class PriorSpec(WeightSpec):
    """The weight of classes, whatever the evidence. Names are as in edges: `xid-*`, `!xid-43`."""

    classes: Annotated[tuple[str, ...], Field(min_length=1)]


class CauseModelSpec(Strict):
    """The part of a pack that ranks causes. The first prior that names a class counts, the newest pack's first."""

    priors: tuple[PriorSpec, ...] = ()
    evidence: Mapping[EvidenceName, WeightSpec] = Field(default_factory=dict)
    doubts: Mapping[DoubtName, WeightSpec] = Field(default_factory=dict)
    none: WeightSpec | None = None
