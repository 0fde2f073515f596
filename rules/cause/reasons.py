"""Why a signal is or is not the root cause: reasons of a fixed list of kinds; `reason_texts` has their words."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from epicenter.rules.cause.suspects import Suspects
from epicenter.rules.cause.witnesses import Accused
from epicenter.rules.model.incident import Explanation
from epicenter.rules.model.outlier import Outlier
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.unusual import Unusual


class ReasonKind(StrEnum):
    """A kind of evidence for or against a candidate, the most decisive first."""

    WAITED_FOR = "waited-for"
    AWAITED = "awaited"
    UNSTOPPABLE = "unstoppable"
    OUTLIER = "outlier"
    NAMED_BY_PEERS = "named-by-peers"
    LOST_ANOTHER = "lost-another"
    EXPLAINED_BY = "explained-by"
    SHARED_EXPLANATION = "shared-explanation"
    SURVIVED = "survived"
    CLEARED = "cleared"
    OUTLASTED = "outlasted"
    CUT_TRACEBACK = "cut-traceback"
    UNNAMED = "unnamed"
    IDLE_WARNING = "idle-warning"
    AFTERWARDS = "afterwards"
    NODE_NAMED_ELSEWHERE = "node-named-elsewhere"
    KERNEL = "kernel"
    UNUSUAL = "unusual"
    EXPLAINS = "explains"
    ALONE = "alone"
    EARLIEST = "earliest"
    USUAL_CAUSE = "usual-cause"
    UNUSUAL_CAUSE = "unusual-cause"
    STANDSTILL = "standstill"


EXPLAINED_KINDS: Final = (ReasonKind.EXPLAINED_BY, ReasonKind.SHARED_EXPLANATION)
"""Kinds which mean that another signal caused the candidate."""


class Alone(msgspec.Struct, frozen=True, gc=False):
    """The only node that reports a class, empty if unknown, and how many other nodes report other classes."""

    node: str
    other_nodes: int


About = Signal | Alone | Explanation | Suspects | Outlier | Accused | Unusual
"""What a reason is about: the candidate's signal or node, an end of an edge, whom the others wait for or lost, or
how unusual its message is.
"""


class Reason(msgspec.Struct, frozen=True, gc=False):
    """One reason with its weight: positive points support the candidate, negative ones count against it."""

    kind: ReasonKind
    points: float
    about: About | None = None
