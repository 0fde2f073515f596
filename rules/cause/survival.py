"""What a job trained on after did not stop it, unless it stays."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from epicenter.rules.model.signals import CLOCK_SKEW_NS, Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.vocabulary import vocabulary

Span = tuple[int, int]
Trained = Callable[[str, str], Span]
"""From when until when a job of a cluster trained in its newest attempt, without its newest step: ns, 0 if unknown."""

MARGIN_NS: Final = 2 * CLOCK_SKEW_NS
_FAMILIES_OF_NODES = ("nvidia", "amd", "machine", "kernel")
BROKEN_NODE_MARGIN_NS: Final = 120 * NS_PER_S
"""A node's clock may be off this far: what breaks a node or GPU for good is not ruled out sooner."""


def is_survived(signal: Signal, spans: Collection[Span]) -> bool:
    """Whether all jobs that the signal affects, one span each, completed two steps after it.

    False for verdicts on missing logs, and for classes that stay although a job trains on.
    """
    if not spans or signal.position is None or vocabulary().is_latent(signal.failure_class):
        return False
    margin_ns = BROKEN_NODE_MARGIN_NS if breaks_its_node(signal) else MARGIN_NS
    return all(since_ns <= signal.event_time_ns < until_ns - margin_ns for since_ns, until_ns in spans)


def breaks_its_node(signal: Signal) -> bool:
    """Whether it reports that the node or a device is broken, rather than that one process failed."""
    known = vocabulary()
    return (
        signal.severity == "critical"
        and signal.failure_class not in known.of_process
        and known.family(signal.failure_class) in _FAMILIES_OF_NODES
    )
