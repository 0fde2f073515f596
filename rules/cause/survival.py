"""What a job trained on after did not stop it, unless it stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Final

from msgspec import structs

from epicenter.rules.cause.collectives import REPORTING_CLASSES
from epicenter.rules.cause.exceptions import is_uncaught
from epicenter.rules.cause.recovery import SOON_NS, is_about_the_same
from epicenter.rules.model.signals import CLOCK_SKEW_NS, ERRORS, Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.model.training_span import TrainingSpan
from epicenter.rules.packs.vocabulary import vocabulary

Trained = Callable[[str, str], TrainingSpan]
"""When a job of a cluster trained."""

MARGIN_NS: Final = 2 * CLOCK_SKEW_NS
LONG_STEP_NS: Final = 180 * NS_PER_S
"""Ranks may work for this long, as on a checkpoint, before the collective in which they then wait for a lost one."""

MIN_COLLECTIVES: Final = 100
"""A job that gets to this collective has trained."""

SOURCES_OF_JOBS: Final = ("worker", "any", "")
"""Where lines come from that a job's program may have written."""

_WARNING: Final = re.compile(
    r"(?:[^\s:]{1,40}[\s:]+){0,4}?(?:[\[(<]?(?:WARN|WARNING)\b|\[?W\d{3,4} \d\d:\d\d:\d\d[\d.]{0,10} )"
)
"""Level first, or after a time and a name, as Python's logging writes it; or the letter of glog and c10d."""

_TRIES: Final = re.compile(
    r"(?i)\b(?:attempt|retry|try|restart) {0,2}#?(?P<now>\d{1,4})(?: ?/ ?| of )(?P<most>\d{1,4})\b"
    r"|\b(?:retrying|will retry|trying again|try(?:ing)? again|reading again)\b"
)

_FAMILIES_OF_NODES = ("nvidia", "amd", "machine", "kernel")
_LOSE_CONNECTIONS = ("nic-link-down", "nic-tx-timeout", "ib-link-down", "efa-error", "rdma-transport-fail")
FINAL_MARGIN_NS: Final = 120 * NS_PER_S
"""A node's clock may be off this far: what ends a process or breaks a node for good is not ruled out sooner. An attempt
that trained for this long was not stopped by what came before it.
"""

CLEARED_MARGIN_NS: Final = 60 * NS_PER_S
"""Transfers that a dead link lost fail this long after it came up again."""


def is_survived(signal: Signal, spans: Collection[TrainingSpan], counts_next: bool = False) -> bool:
    """Whether all jobs that the signal affects, one span each, completed two steps after it.

    False for verdicts on missing logs, and for classes that stay although a job trains on. A warning may come before
    the first step of the attempt, as when a job starts. `counts_next`: minutes of training of the next attempt count.
    """
    if not spans or signal.position is None or vocabulary().is_latent(signal.failure_class):
        return False
    return _trained_on(signal, spans, counts_next)


def is_outlasted(signal: Signal, spans: Collection[TrainingSpan], counts_next: bool = False) -> bool:
    """The same for classes that stay: they may still be the cause, but less likely than what came later."""
    return bool(spans) and vocabulary().is_latent(signal.failure_class) and _trained_on(signal, spans, counts_next)


def until_it_waited(span: TrainingSpan, signal: Signal, known: Iterable[Signal]) -> TrainingSpan:
    """The span of a job, at least until shortly before the wait that one of its signals states.

    Ranks repeat such a line minutes later, so it counts only if no `known` report of this attempt waits since before.
    """
    waited_since_ns = signal.onset_ns - LONG_STEP_NS
    if signal.onset_ns >= signal.event_time_ns or waited_since_ns <= span.until_ns:
        return span
    collective = signal.fields.get("seq", "") if signal.failure_class in REPORTING_CLASSES else ""
    has_trained = collective.isdecimal() and int(collective) >= MIN_COLLECTIVES
    has_waited = any(span.since_ns <= report.onset_ns < signal.onset_ns for report in known if report.job == signal.job)
    return span._replace(until_ns=waited_since_ns) if has_trained and not has_waited else span


def _trained_on(signal: Signal, spans: Collection[TrainingSpan], counts_next: bool) -> bool:
    ends_its_process = signal.failure_class in vocabulary().ends_its_process or is_uncaught(signal)
    is_final = breaks_its_node(signal) or ends_its_process
    margin_ns = FINAL_MARGIN_NS if is_final else MARGIN_NS
    is_error, time_ns = signal.severity in ERRORS, signal.event_time_ns
    return all(
        time_ns < span.until_ns - margin_ns
        if time_ns >= (span.since_ns if is_error else span.earlier_ns)
        else counts_next and span.since_ns < span.until_ns - FINAL_MARGIN_NS
        for span in spans
    )


def is_called_a_warning(signal: Signal) -> bool:
    """Whether the program that prints it calls it a warning, as for a read that it tries again: it continues.

    Not so for a process that another one, as Ray's driver, only warns of: that one has ended. Nor for one that says how
    long it has waited: it still does.
    """
    is_of_ended = signal.failure_class in vocabulary().ends_its_process
    continues = signal.onset_ns == signal.event_time_ns and not is_of_ended
    return signal.source in SOURCES_OF_JOBS and continues and bool(_WARNING.match(signal.text))


def is_tried_again(signal: Signal) -> bool:
    """Whether the line says that its program tries again: `attempt 1 of 5`, unless that is the last."""
    found = _TRIES.search(signal.text)
    return found is not None and (not found["now"] or int(found["now"]) < int(found["most"]))


def cleared(signal: Signal, recovery: Signal) -> Signal:
    """The signal; over from the time of this line on if it is about the same, came before, and was not over yet."""
    time_ns = recovery.event_time_ns
    is_open = signal.event_time_ns <= time_ns and not signal.cleared_ns and is_about_the_same(recovery, signal)
    return structs.replace(signal, cleared_ns=time_ns) if is_open else signal


def is_over(signal: Signal, time_ns: int) -> bool:
    """Whether a line reported long before this time that the failure was over."""
    return 0 < signal.cleared_ns < time_ns - CLEARED_MARGIN_NS


def was_over_soon(signal: Signal) -> bool:
    """Whether a line has said soon after this failure that it was over, and nothing is left of it."""
    took_ns = signal.cleared_ns - signal.event_time_ns
    return signal.cleared_ns > 0 and 0 <= took_ns <= SOON_NS and may_pass(signal.failure_class)


@cache
def may_pass(failure_class: str) -> bool:
    """Whether nothing is left of such a failure once it is over: devices stay suspicious, a link loses connections."""
    return not (
        vocabulary().is_latent(failure_class) or is_of_node(failure_class) or failure_class in _LOSE_CONNECTIONS
    )


def breaks_its_node(signal: Signal) -> bool:
    """Whether it reports that the node or a device is broken, rather than that one process failed."""
    return signal.severity == "critical" and is_of_node(signal.failure_class)


@cache
def is_of_node(failure_class: str) -> bool:
    """Whether the class is one of a node or its devices, rather than of one process."""
    known = vocabulary()
    return failure_class not in known.of_process and known.family(failure_class) in _FAMILIES_OF_NODES
