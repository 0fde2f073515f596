"""Which errors a job may survive: alone, they stay pending until more follows, or until it trains on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from epicenter.rules.cause.exceptions import is_uncaught
from epicenter.rules.cause.survival import breaks_its_node
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.vocabulary import vocabulary

HOLD_NS: Final = 10 * NS_PER_S
"""How long a lone error stays pending at least: a successful retry or a cancellation may follow at once."""

HANDLED_WITHIN_NS: Final = 60 * NS_PER_S
"""A program says at most this long after an error that it continues."""

_CLASSES: Final = (
    *("python-exception", "import-error", "subprocess-fail", "connection-reset", "socket-timeout"),
    "hf-hub-download-fail",
)
_FAMILIES: Final = ("storage", "environment", "cuda", "memory", "serving")
_SOURCES_OF_JOBS: Final = ("worker", "any", "")


def is_soft(signal: Signal) -> bool:
    """Whether a job may well survive it."""
    if is_of_a_node(signal):
        return not (breaks_its_node(signal) or vocabulary().is_latent(signal.failure_class))
    is_of_a_job = signal.source in _SOURCES_OF_JOBS and signal.severity != "critical"
    return is_of_a_job and _is_of_a_program(signal.failure_class)


def is_of_a_node(signal: Signal) -> bool:
    """Whether the kernel reports it, or a program of the node, as one that manages its links."""
    return is_hard(signal) or (not signal.job and vocabulary().family(signal.failure_class) == "network")


def is_handled(errors: Sequence[Signal], handled: Signal) -> bool:
    """Whether the process that printed all of these errors continues after the newest, as its later line says.

    Ranks may share one stream: an exception that nothing caught is not taken back by the line of another rank.
    """
    if any(map(is_uncaught, errors)):
        return False
    newest_ns = max(error.event_time_ns for error in errors)
    processes = {(error.job, error.node, error.rank) for error in errors}
    is_of_one_process = processes == {(handled.job, handled.node, handled.rank)}
    return is_of_one_process and 0 <= handled.event_time_ns - newest_ns <= HANDLED_WITHIN_NS


def is_hard(signal: Signal) -> bool:
    """Whether it is a failure regardless of the job's end: the kernel reports it."""
    return signal.source == "kernel"


@cache
def _is_of_a_program(failure_class: str) -> bool:
    known = vocabulary()
    is_survivable = failure_class in _CLASSES or known.family(failure_class) in _FAMILIES
    return is_survivable and not known.is_latent(failure_class) and failure_class not in known.ends_its_process
