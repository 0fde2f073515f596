"""The candidates for an incident's root cause, and the evidence that is missing, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from epicenter.rules.cause.confidence import Gap
from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.cause.ranking import Candidate
from epicenter.rules.cause.reasons import Reason, ReasonKind
from epicenter.rules.cause.suspects import WAITING_CLASSES, Suspects
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.incident import RankedCause
from epicenter.rules.model.job_names import job_in_words
from epicenter.rules.report.culprit import culprit_of, outlier_of
from epicenter.rules.report.reason_text import reason_texts

MAX_CANDIDATES: Final = 5
POINTS_THAT_HALVE: Final = 3
"""A candidate this many points behind another is half as likely."""

MIN_CONFIDENCE: Final = 0.01
"""The confidence of a candidate with almost no support."""

_MAX_SHOWN_RANKS: Final = 8


def candidates(
    state: IncidentState,
    ranked: Sequence[Candidate],
    suspects: Suspects | None,
    context: IncidentContext,
    sure: float,
) -> tuple[RankedCause, ...]:
    """The best candidates of different class or node, best first; those that only waited name the rank they waited for.

    The first is as `sure` as the root cause. The others share the rest of 1 by their points; none gets more than
    the first, and none less than `MIN_CONFIDENCE`.
    """
    first, *others = _distinct([_named(state, candidate, suspects, context) for candidate in ranked])
    weights = [0.5 ** ((first.points - candidate.points) / POINTS_THAT_HALVE) for candidate in others]
    shares = [min(sure, max(MIN_CONFIDENCE, (1 - sure) * weight / sum(weights))) for weight in weights]
    shown = [(first, sure), *zip(others, shares, strict=True)][:MAX_CANDIDATES]
    return tuple(_cause(candidate, round(share, 2)) for candidate, share in shown)


def _named(
    state: IncidentState, candidate: Candidate, suspects: Suspects | None, context: IncidentContext
) -> Candidate:
    signal = culprit_of(state, candidate.signal, suspects, context)
    if signal is candidate.signal:
        return candidate
    only_waited = suspects is not None and suspects.culprit_of(candidate.signal) is not candidate.signal
    reasons = [Reason(ReasonKind.WAITED_FOR, 0, suspects)] if suspects and only_waited else []
    outlier = outlier_of(structs.replace(signal, node=""), context)
    reasons += [Reason(ReasonKind.OUTLIER, 0, outlier)] if outlier and outlier.node == signal.node else []
    return replace(candidate, signal=signal, reasons=[*reasons, *candidate.reasons])


def _distinct(ranked: Sequence[Candidate]) -> list[Candidate]:
    by_kind: dict[tuple[str, str], Candidate] = {}
    for candidate in ranked:
        by_kind.setdefault((candidate.signal.failure_class, candidate.signal.node), candidate)
    return list(by_kind.values())


def _cause(candidate: Candidate, share: float) -> RankedCause:
    signal = candidate.signal
    return RankedCause(
        failure_class=signal.failure_class,
        rule=signal.rule,
        node=signal.node,
        rank=signal.rank,
        gpu=signal.gpu,
        confidence=share,
        reasons=reason_texts(candidate.reasons),
        explains=candidate.explains,
        explained_by=candidate.explained_by,
    )


def missing(
    state: IncidentState, ranked: Sequence[Candidate], suspects: Suspects | None, context: IncidentContext = NO_CONTEXT
) -> tuple[str, ...]:
    """The evidence that is missing for certainty, a sentence each; empty if none is known to be missing."""
    root = ranked[0].signal
    node = culprit_of(state, root, suspects, context).node
    is_only_waiting = all(
        candidate.is_explained or candidate.signal.failure_class in WAITING_CLASSES for candidate in ranked
    )
    return (
        *_unseen_kernel(node, context),
        *_unknown_culprit(state, is_only_waiting, suspects),
        *([] if node or not root.node else ["no line says which node did not come: only those that waited for it"]),
        *_unseen_ranks(state, context),
        *_cut_logs(state, context),
        *_uncounted(state),
    )


def gaps(
    state: IncidentState, ranked: Sequence[Candidate], suspects: Suspects | None, context: IncidentContext = NO_CONTEXT
) -> frozenset[Gap]:
    """What is missing that could show another cause."""
    root = ranked[0].signal
    node = culprit_of(state, root, suspects, context).node
    of_kernel = Gap.KERNEL_LOG if node else Gap.NODE
    return frozenset(
        ({of_kernel} if _unseen_kernel(node, context) else set())
        | ({Gap.RANKS} if _unseen_ranks(state, context) else set())
    )


def _unseen_kernel(node: str, context: IncidentContext) -> list[str]:
    if not node:
        return ["no line names the node where it began"]
    if context.kernel_nodes is None or node in context.kernel_nodes:
        return []
    return [f"there is no kernel log of {node}, so a hardware failure can be neither confirmed nor ruled out"]


def _unknown_culprit(state: IncidentState, is_only_waiting: bool, suspects: Suspects | None) -> list[str]:
    if not is_only_waiting:
        return []
    if suspects:
        return [f"only waiting was observed: no line shows why {_who(suspects)} did not arrive"]
    return ["only waiting was observed: no rank is known to be absent or behind"]


def _who(suspects: Suspects) -> str:
    return f"rank {suspects.rank}" if suspects.rank is not None else f"{len(suspects.suspects)} ranks"


def _unseen_ranks(state: IncidentState, context: IncidentContext) -> list[str]:
    found = []
    for job in sorted(state.jobs):
        size, seen_ranks = context.world_size_by_job.get(job), context.seen_ranks_by_job.get(job)
        if size is None or seen_ranks is None:
            continue
        if unseen := sorted(set(range(size)) - set(seen_ranks)):
            found.append(f"{job_in_words(job)}: {len(unseen)} of {size} ranks never logged: {_list(unseen)}")
    return found


def _list(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:_MAX_SHOWN_RANKS]))
    return f"{shown}, ..." if len(ranks) > _MAX_SHOWN_RANKS else shown


def _cut_logs(state: IncidentState, context: IncidentContext) -> list[str]:
    cut = sorted(state.nodes & set(context.cut_nodes or ()))
    return [f"a log of {node} is cut off within a line: what followed is lost" for node in cut]


def _uncounted(state: IncidentState) -> list[str]:
    dropped = state.signal_count - len(state.signals())
    return [f"{dropped} more signals were counted, but their lines were not stored"] if dropped > 0 else []
