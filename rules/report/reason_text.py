"""Reasons in words: the only place that knows their sentences. Nothing reads a sentence back."""

from __future__ import annotations

from typing import Final

from epicenter.rules.cause.collectives import NamedBy
from epicenter.rules.cause.reasons import About, Alone, Reason, ReasonKind
from epicenter.rules.cause.suspects import Absent, Behind, Mismatch, Named, Operation, Suspect, Suspects
from epicenter.rules.model.incident import Explanation
from epicenter.rules.model.signals import Signal

REASONS: Final[dict[ReasonKind, str]] = {
    ReasonKind.STANDSTILL: "it stands still or goes slowly; what a line says goes before that",
    ReasonKind.USUAL_CAUSE: "{failure_class} is usually a cause",
    ReasonKind.UNUSUAL_CAUSE: "{failure_class} is hardly ever a cause",
    ReasonKind.NODE_NAMED_ELSEWHERE: "another line says the same and names the node",
    ReasonKind.KERNEL: "the kernel says so, which is nearer to the hardware than any library",
    ReasonKind.ALONE: "only {place} says it; {other_nodes} other nodes say other things",
    ReasonKind.EXPLAINED_BY: "explained by {failure_class}{on_node}: {why}",
    ReasonKind.EXPLAINS: "it explains {failure_class}: {why}",
    ReasonKind.SHARED_EXPLANATION: "it was said in one breath with another line that is explained",
    ReasonKind.IDLE_WARNING: "it is a warning that explains none of the failures",
    ReasonKind.EARLIEST: "it began before everything that nothing else explains",
    ReasonKind.AWAITED: "it comes from where the others wait for: {suspects}",
    ReasonKind.WAITED_FOR: "{suspects}",
    ReasonKind.DEADLY: "it struck a task that was called dead only after it",
    ReasonKind.OUTLIVED: "the job made many more steps after it",
    ReasonKind.AFTER_CANCELLATION: "it comes only after the job was cancelled",
}

NAMED: Final[dict[NamedBy, str]] = {
    NamedBy.TIMEOUT_REPORT: "the time-out report names it as lagging",
    NamedBy.DESYNC_REPORT: "the report names it as missing",
    NamedBy.STRAGGLER_REPORT: "the job's own straggler report names it",
}

CASCADE: Final = "{effect} is explained by {failure_class}{on_node}: {why}"
"""A link of a log's cascade."""


def reason_text(reason: Reason) -> str:
    """The reason as a sentence."""
    return REASONS[reason.kind].format_map(_words(reason.about))


def cascade_text(effect: str, cause: Explanation) -> str:
    """What led to a class."""
    return CASCADE.format_map({"effect": effect, **_words(cause)})


def suspects_text(suspects: Suspects) -> str:
    """What speaks against the suspects; several ranks share the first one's sentence."""
    first, *others = suspects.suspects
    more = f"; so do {len(others)} other ranks" if others else ""
    return f"{suspect_text(first)}{more}"


def suspect_text(suspect: Suspect) -> str:
    """What speaks against one rank."""
    rank = f"rank {suspect.rank}"
    match suspect.evidence:
        case Named(report):
            return f"{rank}: {NAMED[report]}"
        case Absent(reported, members):
            return f"{rank} never reported the time-out, as {reported} of {members} ranks did"
        case Mismatch(runs, usual, group):
            return f"{rank} runs {_operation(runs)} where others run {_operation(usual)}{_in(group)}"
        case Behind(last, newest, group, has_enqueued=False):
            return f"{rank} enqueued nothing after collective #{last}, while others wait in #{newest}{_in(group)}"
        case Behind(last, newest, group):
            waiting = f"{rank} still waits in collective #{last}, which others completed: they wait in #{newest}"
            return f"{waiting}{_in(group)}"


def _operation(operation: Operation) -> str:
    return f"{operation.name} of {operation.sizes} elements" if operation.sizes else operation.name


def _in(group: str) -> str:
    return f" in process group {group}" if group else ""


def _words(about: About | None) -> dict[str, object]:
    match about:
        case Signal():
            return {"failure_class": about.failure_class}
        case Alone(node, other_nodes):
            return {"place": node or "one place", "other_nodes": other_nodes}
        case Explanation(failure_class, node, why):
            return {"failure_class": failure_class, "on_node": f" on {node}" if node else "", "why": why}
        case Suspects():
            return {"suspects": suspects_text(about)}
        case None:
            return {}
