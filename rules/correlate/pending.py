"""Which errors a job may survive: alone, they stay pending until more follows, or until it trains on."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from epicenter.rules.cause.survival import breaks_its_node
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.vocabulary import vocabulary

HOLD_NS: Final = 10 * NS_PER_S
"""How long a lone error stays pending at least: a successful retry or a cancellation may follow at once."""

_CLASSES: Final = ("python-exception", "connection-reset", "socket-timeout", "hf-hub-download-fail")
_FAMILIES: Final = ("storage", "environment")
_UNCAUGHT: Final = re.compile(r"\[rank\d{1,6}\]: \S")
_SOURCES_OF_JOBS: Final = ("worker", "any", "")


def is_soft(signal: Signal) -> bool:
    """Whether a job may well survive it."""
    if signal.source == "kernel":
        return not (breaks_its_node(signal) or vocabulary().is_latent(signal.failure_class))
    is_of_a_job = signal.source in _SOURCES_OF_JOBS and signal.severity != "critical"
    return is_of_a_job and _is_of_a_program(signal.failure_class)


def is_uncaught(signal: Signal) -> bool:
    """Whether it is an exception that ended its rank: `_distributed_excepthook` of PyTorch names the rank before it."""
    return signal.failure_class == "python-exception" and bool(_UNCAUGHT.match(signal.text))


def is_hard(signal: Signal) -> bool:
    """Whether it is a failure regardless of the job's end: the kernel reports it."""
    return signal.source == "kernel"


@cache
def _is_of_a_program(failure_class: str) -> bool:
    known = vocabulary()
    is_survivable = failure_class in _CLASSES or known.family(failure_class) in _FAMILIES
    return is_survivable and not known.is_latent(failure_class)
