"""The title of an incident: its root's headline, and for a wait who waits for whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from epicenter.rules.cause.collectives import REPORTING_CLASSES, NamedBy
from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.cause.suspects import WAITING_CLASSES, Absent, Behind, Mismatch, Named, Suspects
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.job_names import job_in_words
from epicenter.rules.model.ranges import rank_list
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.spec import RuleSpec
from epicenter.rules.report.culprit import nodes_alike, reports_absence, unheard_nodes
from epicenter.rules.report.headline import MAX_HEADLINE_LENGTH, cut, duration, headline
from epicenter.rules.report.mismatch import MISMATCH_RULE
from epicenter.rules.report.reason_text import suspects_text

MAX_SHOWN_NODES: Final = 3
MAX_LISTED_LENGTH: Final = 80
_MS_PER_S: Final = 1000

_NAMED: Final[dict[NamedBy, str]] = {
    NamedBy.TIMEOUT_REPORT: "named as lagging",
    NamedBy.DESYNC_REPORT: "named as missing",
    NamedBy.STRAGGLER_REPORT: "named as slow",
}


def title_of(
    state: IncidentState,
    root: Signal,
    culprit: Signal,
    suspects: Suspects | None,
    spec: RuleSpec | None,
    context: IncidentContext = NO_CONTEXT,
) -> str:
    """What happened, where, and whom the others wait for. `root` is the signal as its line has it."""
    if reports_absence(state, root, context):
        reporters = _reporters(state, root, culprit, context)
        return cut(f"{headline(root, spec, with_place=False)}{reporters}", MAX_HEADLINE_LENGTH)
    if suspects and root.rule == MISMATCH_RULE and root.position is None:
        place = f", on {suspects.node}" if suspects.node else ""
        return f"{cut(suspects_text(suspects), MAX_HEADLINE_LENGTH - len(place))}{place}"
    if root.failure_class not in WAITING_CLASSES:
        return f"{headline(root, spec)}{_elsewhere(state, root)}"
    waits = waiting_text(state, root.job)
    if suspects is None or root.job != suspects.job:
        return (waits if root.failure_class in REPORTING_CLASSES else "") or headline(root, spec)
    return cut(f"{waits or headline(root, spec, with_place=False)}; {awaited_text(suspects)}", MAX_HEADLINE_LENGTH)


def _elsewhere(state: IncidentState, root: Signal) -> str:
    others = nodes_alike(state, root)
    if not others or not root.node:
        return ""
    return f", and on {len(others)} other node{'s' * (len(others) > 1)}"


def _reporters(state: IncidentState, root: Signal, culprit: Signal, context: IncidentContext) -> str:
    """` on 3 nodes, job 7801; node0003 did not report it`, as far as that is known."""
    count = len(nodes_alike(state, root)) + 1
    job = f", {job_in_words(root.job)}" if root.job else ""
    absent = f"; {culprit.node} did not report it" if culprit.node else _never_joined(state, root, context)
    return f" on {count} node{'s' * (count > 1)}{job}{absent}"


def _never_joined(state: IncidentState, root: Signal, context: IncidentContext) -> str:
    """Several nodes by name, or only how many, where no list names them."""
    names, known = unheard_nodes(state, root, context), context.nodes_by_job.get(root.job, ())
    if names:
        return f"; {', '.join(names) if len(names) <= MAX_SHOWN_NODES else f'{len(names)} nodes'} had not logged"
    expected = context.node_count_by_job.get(root.job, 0)
    lacking = expected - len(known)
    return f"; {lacking} of {expected} nodes never logged" if 0 < 2 * lacking <= expected else ""


def waiting_text(state: IncidentState, job: str) -> str:
    """`ranks 0–15 timed out in ALLREDUCE 2415 after 30 min`; empty if no two ranks report the same collective."""
    works = {
        rank: (row.work.op, row.work.seq)
        for rows in state.collectives.groups(job).values()
        for rank, row in rows.items()
        if row.work and row.work.op
    }
    usual, count = max(Counter(works.values()).items(), key=lambda item: (item[1], item[0]), default=(("", 0), 0))
    if count < 2:
        return ""
    ranks = [rank for rank, work in works.items() if work == usual]
    listed = rank_list(ranks)
    who = listed if len(listed) <= MAX_LISTED_LENGTH else f"{len(ranks)} ranks"
    return f"{who} timed out in {usual[0]} {usual[1]}{_after(state, job)}"


def _after(state: IncidentState, job: str) -> str:
    signals = [signal for name in REPORTING_CLASSES for signal in state.signals_by_class.get(name, ())]
    waited = [
        int(text)
        for signal in signals
        if signal.job == job and (text := signal.fields.get("ran_ms", "")).isascii() and text.isdigit()
    ]
    return f" after {duration(min(waited) / _MS_PER_S)}" if waited else ""


def awaited_text(suspects: Suspects) -> str:
    """`ranks 16–23 (node0003) never reported`."""
    ranks = rank_list(suspect.rank for suspect in suspects.suspects)
    return f"{ranks}{_on(sorted(suspects.nodes))} {_evidence(suspects)}"


def _on(nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes) if len(nodes) <= MAX_SHOWN_NODES else f"{len(nodes)} nodes"
    return f" ({shown})" if nodes else ""


def _evidence(suspects: Suspects) -> str:
    is_one = len(suspects.suspects) == 1
    match suspects.suspects[0].evidence:
        case Named(report):
            return f"{'is' if is_one else 'are'} {_NAMED[report]}"
        case Absent():
            return "never reported"
        case Mismatch():
            return "run another collective" if not is_one else "runs another collective"
        case Behind(last, newest):
            return f"got no further than collective {last}, while others wait in {newest}"
