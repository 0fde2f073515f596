"""Which failure a line answers that says that something works again: of the same subject, a short time before."""

from __future__ import annotations

from typing import Final

from epicenter.rules.model.signals import EVENTS, POD_FIELD, Signal
from epicenter.rules.model.times import NS_PER_S

SUBJECT_FIELDS: Final = ("link", "server", "target", "device", "disk", "pci", "cpu", "image", "lease", "path")
"""Fields that name what failed and what works again."""

SOON_NS: Final = 900 * NS_PER_S
"""What works again within this time was a passing disturbance."""


def where(signal: Signal) -> str:
    """Where a failure is until a line says that it is over: at a pod that starts, or on a node."""
    pod = signal.fields.get(POD_FIELD, "").rpartition("/")[2] if signal.source == EVENTS else ""
    return pod or signal.node


def is_about_the_same(recovery: Signal, failure: Signal) -> bool:
    """Whether a line that something works again may be about the subject of this failure.

    Their places are the same, and so is each subject that both of them name.
    """
    pairs = [(recovery.fields.get(name), failure.fields.get(name)) for name in SUBJECT_FIELDS]
    pairs.append((_rank(recovery), _rank(failure)))
    return where(recovery) == where(failure) and all(again == lost for again, lost in pairs if again and lost)


def subject(signal: Signal) -> tuple[str, ...]:
    """What a failure is about, and where: those of one class with the same subject have the same end."""
    return (where(signal), _rank(signal), *(signal.fields.get(name, "") for name in SUBJECT_FIELDS))


def answers(recovery: Signal, failure: Signal) -> bool:
    """Whether the line says that this failure was over soon."""
    took_ns = recovery.event_time_ns - failure.event_time_ns
    return 0 <= took_ns <= SOON_NS and _is_later(recovery, failure) and is_about_the_same(recovery, failure)


def _is_later(line: Signal, other: Signal) -> bool:
    """By their places, if times are those of one second: lines of one file are in order."""
    if line.position and other.position and line.position.source == other.position.source:
        return line.event_time_ns > other.event_time_ns or line.position.offset > other.position.offset
    return True


def _rank(signal: Signal) -> str:
    return "" if signal.rank is None else str(signal.rank)
