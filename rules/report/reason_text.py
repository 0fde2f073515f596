"""Reasons in words: the only place with their sentences. No code parses a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from epicenter.rules.cause.collectives import NamedBy
from epicenter.rules.cause.reasons import About, Alone, Reason, ReasonKind
from epicenter.rules.cause.suspects import Absent, Behind, Mismatch, Named, Operation, Suspect, Suspects
from epicenter.rules.cause.witnesses import Accused
from epicenter.rules.model.incident import Explanation
from epicenter.rules.model.outlier import Outlier
from epicenter.rules.model.ranges import rank_list
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.unusual import Unusual
from epicenter.rules.report.unusual_text import unusual_texts

REASONS: Final[dict[ReasonKind, str]] = {
    ReasonKind.STANDSTILL: "a stalled or slow job is weaker evidence than an explicit error line",
    ReasonKind.USUAL_CAUSE: "{failure_class} is usually a root cause",
    ReasonKind.UNUSUAL_CAUSE: "{failure_class} is rarely a root cause",
    ReasonKind.NODE_NAMED_ELSEWHERE: "another line reports the same and names the node",
    ReasonKind.KERNEL: "the kernel reports it, which is closer to the hardware than any library",
    ReasonKind.ALONE: "only {place} reports it; {others_report} something else",
    ReasonKind.UNUSUAL: "{how}",
    ReasonKind.EXPLAINED_BY: "explained by {failure_class}{on_node}: {why}",
    ReasonKind.EXPLAINS: "it explains {failure_class}: {why}",
    ReasonKind.SHARED_EXPLANATION: "it was logged together with a line that is explained",
    ReasonKind.IDLE_WARNING: "it is a warning that explains none of the failures",
    ReasonKind.AFTERWARDS: "it began after the job had failed, and explains nothing",
    ReasonKind.EARLIEST: "it began before every other unexplained signal",
    ReasonKind.SURVIVED: "its job completed further steps after it",
    ReasonKind.NAMED_BY_PEERS: "{accusers} this node as the one that failed",
    ReasonKind.LOST_ANOTHER: "it reports that another node went away: {lost}",
    ReasonKind.CLEARED: "a line reported that it was over before the last failure began",
    ReasonKind.OUTLASTED: "its job completed further steps after it, though such a failure stays",
    ReasonKind.AWAITED: "it comes from the rank that the others wait for: {suspects}",
    ReasonKind.WAITED_FOR: "{suspects}",
    ReasonKind.UNSTOPPABLE: "only on {place} a process did not stop when asked to, and had to be killed",
    ReasonKind.OUTLIER: "only {place} has {difference}",
    ReasonKind.UNNAMED: "no rule names its line, so what its words suggest may be wrong",
    ReasonKind.CUT_TRACEBACK: "it is a traceback without its exception, next to a failure with a name",
}

MAX_REASONS: Final = 5
"""At most this many reasons of a cause are shown."""

_DECISIVE_FIRST: Final = list(ReasonKind)

NAMED: Final[dict[NamedBy, str]] = {
    NamedBy.TIMEOUT_REPORT: "the timeout report names it as lagging",
    NamedBy.DESYNC_REPORT: "the report names it as missing",
    NamedBy.STRAGGLER_REPORT: "the job's own straggler report names it",
}

CASCADE: Final = "{effect} is explained by {failure_class}{on_node}: {why}"
"""A link of a log's cascade."""


def reason_texts(reasons: Iterable[Reason]) -> tuple[str, ...]:
    """The reasons as sentences, the most decisive first; effects with the same explanation share a sentence."""
    ordered = sorted(_merged(reasons), key=lambda reason: _DECISIVE_FIRST.index(reason.kind))
    return tuple(map(_reason_text, ordered[:MAX_REASONS]))


def _merged(reasons: Iterable[Reason]) -> Iterator[Reason]:
    effects: dict[str, list[str]] = {}
    for reason in reasons:
        if reason.kind is ReasonKind.EXPLAINS and isinstance(reason.about, Explanation):
            effects.setdefault(reason.about.why, []).append(reason.about.failure_class)
        elif not (isinstance(reason.about, Alone) and not reason.about.node):
            yield reason
    for why, classes in effects.items():
        *others, last = classes
        names = f"{', '.join(others)} and {last}" if others else last
        yield Reason(ReasonKind.EXPLAINS, len(classes), Explanation(names, "", why))


def _reason_text(reason: Reason) -> str:
    return REASONS[reason.kind].format_map(_words(reason.about))


def cascade_text(effect: str, cause: Explanation) -> str:
    """Why a class occurred, as a sentence."""
    return CASCADE.format_map({"effect": effect, **_words(cause)})


def suspects_text(suspects: Suspects) -> str:
    """The evidence against the suspects; several ranks share the first one's sentence."""
    first, *others = suspects.suspects
    if others and isinstance(first.evidence, Absent):
        return _absent_text(rank_list(suspect.rank for suspect in suspects.suspects), first.evidence)
    more = f"; likewise {rank_list(suspect.rank for suspect in others)}" if others else ""
    return f"{suspect_text(first)}{more}"


def _absent_text(who: str, absent: Absent) -> str:
    return f"{who} never reported the timeout, although {absent.reported} of {absent.members} ranks did"


def suspect_text(suspect: Suspect) -> str:
    """The evidence against one rank."""
    rank = f"rank {suspect.rank}"
    match suspect.evidence:
        case Named(report):
            return f"{rank}: {NAMED[report]}"
        case Absent():
            return _absent_text(rank, suspect.evidence)
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
            others = "1 other node reports" if other_nodes == 1 else f"{other_nodes} other nodes report"
            return {"place": node, "others_report": others}
        case Explanation(failure_class, node, why):
            return {"failure_class": failure_class, "on_node": f" on {node}" if node else "", "why": why}
        case Outlier():
            return {"place": about.node, "difference": str(about)}
        case Accused(node, accusers, _):
            count = len(accusers)
            return {"lost": node, "accusers": "1 node names" if count == 1 else f"{count} nodes name"}
        case Unusual():
            return {"how": ", ".join(unusual_texts(about))}
        case Suspects():
            return {"suspects": suspects_text(about)}
        case None:
            return {}
