"""The answer "not known": the cause may be none of the candidates, as evidence is missing. What would settle it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from epicenter.rules.cause.confidence import Doubt, rivals, scored
from epicenter.rules.cause.context import IncidentContext
from epicenter.rules.cause.ranking import Candidate
from epicenter.rules.cause.suspects import Suspects
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.incident import NotKnown
from epicenter.rules.model.job_names import job_in_words
from epicenter.rules.report.evidence import cut_nodes, shown_ranks, unseen_ranks

HIDES_THE_CLASS: Final = (Doubt.ONLY_WAITING, Doubt.UNSEEN_CAUSE, Doubt.USUAL_EFFECT)
"""With these doubts, the first answer may be an effect of what no line shows."""


def not_known(
    state: IncidentState,
    answers: Sequence[Candidate],
    probability: float,
    doubts: Collection[str],
    suspects: Suspects | None,
    context: IncidentContext,
) -> NotKnown | None:
    """How likely it is that no candidate is the cause, with what is known; None if no evidence is missing."""
    competing = [answers[number] for number in (0, *rivals(scored(answers)))]
    node, failure_class = _known_node(competing, suspects), _known_class(competing, doubts)
    settled_by = tuple(_settled_by(state, node or answers[0].signal.node, doubts, suspects, context))
    is_answered = (failure_class, node) == (answers[0].signal.failure_class, answers[0].signal.node)
    known_class = "" if is_answered else failure_class
    return NotKnown(probability, known_class, node, settled_by) if settled_by else None


def _known_node(competing: Sequence[Candidate], suspects: Suspects | None) -> str:
    """Where the others wait, or else the only node of all answers that could be the cause."""
    nodes = {answer.signal.node for answer in competing}
    return (suspects.node if suspects else "") or (nodes.pop() if len(nodes) == 1 else "")


def _known_class(competing: Sequence[Candidate], doubts: Collection[str]) -> str:
    """The only class of all answers that could be the cause; empty if it may be an effect of what no line shows."""
    classes = {answer.signal.failure_class for answer in competing}
    return classes.pop() if len(classes) == 1 and not set(HIDES_THE_CLASS) & set(doubts) else ""


def _settled_by(
    state: IncidentState, node: str, doubts: Collection[str], suspects: Suspects | None, context: IncidentContext
) -> Iterator[str]:
    if Doubt.NO_KERNEL_LOG in doubts:
        yield f"the kernel log of {node}"
    if Doubt.NO_NODE in doubts:
        yield from (
            f"the logs of all nodes of {job_in_words(job)}, those of the kernels too" for job in sorted(state.jobs)
        )
    yield from (
        f"the logs of ranks {shown_ranks(ranks)} of {job_in_words(job)}" for job, ranks in unseen_ranks(state, context)
    )
    mute = sorted({name for job in state.jobs for name in context.mute_nodes_by_job.get(job, ())})
    yield from (f"the logs of {name} after they stopped" for name in mute)
    yield from (f"the rest of the log of {name}, which is cut off" for name in cut_nodes(state, context))
    if Doubt.ONLY_WAITING in doubts and suspects:
        yield f"where {_who(suspects)} stood: its stack (`py-spy dump`), or its own log"


def _who(suspects: Suspects) -> str:
    return f"rank {suspects.rank}" if suspects.rank is not None else f"the {len(suspects.suspects)} ranks"
