"""The candidates for an incident's root cause, and the evidence that is missing, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import Final

from msgspec import structs

from epicenter.rules.cause.confidence import Doubt, distinct
from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.cause.ranking import Candidate
from epicenter.rules.cause.reasons import Alone, Reason, ReasonKind
from epicenter.rules.cause.suspects import WAITING_CLASSES, Suspects
from epicenter.rules.cause.witnesses import names_another_process
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.liveness.gaps import is_open
from epicenter.rules.model.incident import RankedCause
from epicenter.rules.model.job_names import job_in_words
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import iso_from_ns
from epicenter.rules.packs.topology import NO_TOPOLOGY, Topology
from epicenter.rules.report.culprit import culprit_of, outlier_of, unstoppable_node
from epicenter.rules.report.reason_text import reason_texts

MAX_CANDIDATES: Final = 5
_MAX_SHOWN_RANKS: Final = 8
_MAX_SHOWN_NODES: Final = 3
_MAX_SHOWN_LOGS: Final = 3


def answers_of(
    state: IncidentState, ranked: Sequence[Candidate], suspects: Suspects | None, context: IncidentContext
) -> list[Candidate]:
    """The candidates of different class or node; those that only waited name the rank they waited for.

    After the first come those that could be the cause in its place, then effects and what stopped nothing.
    """
    first, *others = distinct(_named(state, candidate, suspects, context) for candidate in ranked)
    return [first, *sorted(others, key=lambda candidate: candidate.is_explained or candidate.is_idle)]


def causes_of(answers: Sequence[Candidate], probabilities: Iterable[float]) -> tuple[RankedCause, ...]:
    """The best answers, each with its probability; none is likelier than the one before it."""
    ordered = accumulate(probabilities, min)
    shown = zip(answers, ordered, strict=True)
    return tuple(_cause(candidate, share) for candidate, share in islice(shown, MAX_CANDIDATES))


def _named(
    state: IncidentState, candidate: Candidate, suspects: Suspects | None, context: IncidentContext
) -> Candidate:
    signal = culprit_of(state, candidate.signal, suspects, context)
    if signal is candidate.signal:
        return candidate
    only_waited = suspects is not None and suspects.culprit_of(candidate.signal) is not candidate.signal
    reasons = [Reason(ReasonKind.WAITED_FOR, 0, suspects)] if suspects and only_waited else []
    if signal.node and signal.node == unstoppable_node(state, signal) and not only_waited:
        reasons.append(Reason(ReasonKind.UNSTOPPABLE, 0, Alone(signal.node, 0)))
    outlier = outlier_of(structs.replace(signal, node=""), context)
    reasons += [Reason(ReasonKind.OUTLIER, 0, outlier)] if outlier and outlier.node == signal.node else []
    return replace(candidate, signal=signal, reasons=[*reasons, *candidate.reasons])


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
    state: IncidentState,
    ranked: Sequence[Candidate],
    suspects: Suspects | None,
    context: IncidentContext = NO_CONTEXT,
    topology: Topology = NO_TOPOLOGY,
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
        *([] if node or not root.node else [_unknown_node(root, context)]),
        *_unseen_ranks(state, context),
        *_cut_logs(state, context),
        *_unread_logs(context),
        *_unlisted_nodes(state, topology),
        *_uncounted(state),
    )


def gaps(
    state: IncidentState, ranked: Sequence[Candidate], suspects: Suspects | None, context: IncidentContext = NO_CONTEXT
) -> frozenset[Doubt]:
    """What is missing that could show another cause."""
    node = culprit_of(state, ranked[0].signal, suspects, context).node
    found = {
        Doubt.NO_KERNEL_LOG if node else Doubt.NO_NODE: _unseen_kernel(node, context),
        Doubt.UNSEEN_RANKS: _unseen_ranks(state, context),
        Doubt.CUT_LOG: _cut_logs(state, context),
        Doubt.MUTE_NODES: any(context.mute_nodes_by_job.get(job) for job in state.jobs),
    }
    return frozenset(doubt for doubt, is_found in found.items() if is_found)


def _unseen_kernel(node: str, context: IncidentContext) -> list[str]:
    if not node:
        return ["no line names the node where it began"]
    if context.kernel_nodes is None or node in context.kernel_nodes:
        return []
    return [f"there is no kernel log of {node}, so a hardware failure can be neither confirmed nor ruled out"]


def _unknown_node(root: Signal, context: IncidentContext) -> str:
    if names_another_process(root, context):
        return "no line says which node failed first: only that a connection to another was lost"
    return "no line says which node did not come: only those that waited for it"


def _unknown_culprit(state: IncidentState, is_only_waiting: bool, suspects: Suspects | None) -> list[str]:
    if not is_only_waiting:
        return []
    if suspects:
        return [f"only waiting was observed: no line shows why {_who(suspects)} did not arrive"]
    return ["only waiting was observed: no rank is known to be absent or behind"]


def _who(suspects: Suspects) -> str:
    return f"rank {suspects.rank}" if suspects.rank is not None else f"{len(suspects.suspects)} ranks"


def _unseen_ranks(state: IncidentState, context: IncidentContext) -> list[str]:
    sizes = context.world_size_by_job
    return [
        f"{job_in_words(job)}: {len(unseen)} of {sizes[job]} ranks never logged: {shown_ranks(unseen)}"
        for job, unseen in unseen_ranks(state, context)
    ]


def unseen_ranks(state: IncidentState, context: IncidentContext) -> Iterator[tuple[str, list[int]]]:
    """The ranks of each job that never logged, where any is known to be one."""
    for job in sorted(state.jobs):
        size, seen_ranks = context.world_size_by_job.get(job), context.seen_ranks_by_job.get(job)
        if size is None or seen_ranks is None:
            continue
        if unseen := sorted(set(range(size)) - set(seen_ranks)):
            yield job, unseen


def shown_ranks(ranks: Sequence[int]) -> str:
    """The first of them, in words."""
    shown = ", ".join(map(str, ranks[:_MAX_SHOWN_RANKS]))
    return f"{shown}, ..." if len(ranks) > _MAX_SHOWN_RANKS else shown


def _cut_logs(state: IncidentState, context: IncidentContext) -> list[str]:
    return [f"a log of {node} is cut off within a line: what followed is lost" for node in cut_nodes(state, context)]


def _unread_logs(context: IncidentContext) -> Iterator[str]:
    shown = context.unread[:_MAX_SHOWN_LOGS]
    for gap in shown:
        begins, ends = _second(gap.begins_ns), _second(gap.ends_ns)
        when = f"since {begins}, lines are not read" if is_open(gap) else f"from {begins} to {ends}, lines were lost"
        yield f"{when}: {gap.text}"
    if (rest := len(context.unread) - len(shown)) > 0:
        yield f"lines of {rest:,} more logs are not read"


def _second(time_ns: int) -> str:
    return f"{iso_from_ns(time_ns)[:19]}Z"


def cut_nodes(state: IncidentState, context: IncidentContext) -> list[str]:
    """The incident's nodes where a log is cut off within a line."""
    return sorted(state.nodes & set(context.cut_nodes or ()))


def _unlisted_nodes(state: IncidentState, topology: Topology) -> list[str]:
    unlisted = sorted(state.nodes - topology.by_node.keys()) if topology.by_node else []
    if not unlisted:
        return []
    rest = len(unlisted) - _MAX_SHOWN_NODES
    shown = ", ".join(unlisted[:_MAX_SHOWN_NODES]) + (f" and {rest:,} more" if rest > 0 else "")
    return [f"the topology file does not list {shown}: what is shared with other nodes is not known"]


def _uncounted(state: IncidentState) -> list[str]:
    dropped = state.signal_count - sum(map(len, state.signals_by_class.values()))
    return [f"{dropped} more signals were counted, but their lines were not stored"] if dropped > 0 else []
