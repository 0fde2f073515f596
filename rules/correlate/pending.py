"""Which errors a job may survive: alone, they stay pending until more follows, or until it trains on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from epicenter.rules.cause.exceptions import is_of_a_thread, is_uncaught
from epicenter.rules.cause.survival import SOURCES_OF_JOBS, breaks_its_node, is_called_a_warning, is_tried_again
from epicenter.rules.model.signals import EVENTS, Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.vocabulary import vocabulary

HOLD_NS: Final = 10 * NS_PER_S
"""How long a lone error stays pending at least: a successful retry or a cancellation may follow at once."""

START_NS: Final = 600 * NS_PER_S
"""A pod that is not started by then is not about to start."""

HANDLED_WITHIN_NS: Final = 60 * NS_PER_S
"""A program says at most this long after an error that it continues."""

_CLASSES: Final = (
    *("python-exception", "import-error", "subprocess-fail", "connection-reset", "socket-timeout"),
    "hf-hub-download-fail",
)
_FAMILIES: Final = ("storage", "environment", "cuda", "memory", "serving")
DELAYS: Final = ("k8s-image-pull", "k8s-unschedulable", "container-runtime-fail", "storage-timeout")
_IS_FINAL: Final = re.compile(
    r"(?i)not found|manifest unknown|unauthorized|denied|invalid ?(?:image|reference)|ErrImageNeverPull"
)
_FAMILIES_OF_NODES: Final = ("nvidia", "amd", "machine", "kernel")
_KILLS_OF_KERNELS: Final = ("memory.host_oom_kill", "memory.cgroup_oom_kill")
_OF_ANY_PROCESS: Final = ("unknown-death",)
"""What a shell says of a program that it ran, which may be any."""


def is_soft(signal: Signal) -> bool:
    """Whether a job may well survive it."""
    if is_in_passing(signal) or delays_a_start(signal):
        return True
    if is_of_a_node(signal):
        return not (breaks_its_node(signal) or vocabulary().is_latent(signal.failure_class))
    is_of_a_job = signal.source in SOURCES_OF_JOBS and signal.severity != "critical"
    return is_of_a_job and _is_of_a_program(signal.failure_class)


def delays_a_start(signal: Signal) -> bool:
    """Whether Kubernetes can't start a pod yet, and tries again; an image that does not exist will not come."""
    return signal.source == EVENTS and signal.failure_class in DELAYS and not _IS_FINAL.search(signal.text)


def is_in_passing(signal: Signal) -> bool:
    """Whether a program reports it and means to continue: as a warning, before it tries again; or as the end of any
    program that a script runs.
    """
    is_of_any = signal.failure_class in _OF_ANY_PROCESS and _is_of_a_job(signal)
    return is_of_any or is_quoted(signal) or is_announced(signal)


def is_announced(signal: Signal) -> bool:
    """Whether a program reports it as a warning, before it tries again, or as the end of a thread: if it ends
    nevertheless, another line or its silence says so.
    """
    is_survived = is_called_a_warning(signal) or is_of_a_thread(signal) or is_tried_again(signal)
    return is_survived and _is_of_a_job(signal)


def is_quoted(signal: Signal) -> bool:
    """Whether a job's own log has what only a kernel can find, as a text that a model writes."""
    known = vocabulary()
    is_of_kernel = known.family(signal.failure_class) in _FAMILIES_OF_NODES or signal.rule in _KILLS_OF_KERNELS
    return is_of_kernel and not known.is_latent(signal.failure_class) and _is_of_a_job(signal)


def _is_of_a_job(signal: Signal) -> bool:
    return bool(signal.job) and signal.position is not None and (signal.source != "kernel" or signal.log != "")


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
    known, family = vocabulary(), vocabulary().family(failure_class)
    is_survivable = failure_class in _CLASSES or family in _FAMILIES
    lasts = known.is_latent(failure_class) and family != "storage"
    return is_survivable and not lasts and failure_class not in known.ends_its_process
